# Sourced by the scripts beside it: finds a Python, makes the environment once, installs what is missing, says what to do if it cannot.
#
# Which environment: $REGARD_VENV if set, else the one that is active, else .venv. A torch that is there already is kept.

set -eu
cd "$(dirname "$0")/.."
top=$(pwd)

say() { printf '%s\n' "$*" >&2; }

stop() { # stop REASON WAY-OUT...: end with status 2 and the way out
  printf '\n%s: %s\n' "$(basename "$0")" "$1" >&2
  shift
  for line; do printf '  %s\n' "$line" >&2; done
  exit 2
}

find_python() { # the first Python that is new enough
  for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  stop "no Python 3.10 or newer was found on PATH." \
    "Install one (Debian, Ubuntu: apt-get install python3 python3-venv)," \
    "or name yours: PYTHON=/path/to/python3 $0"
}

torch_here() { # "none", "old VERSION" or "kept VERSION"
  "$1" - <<'PYTHON'
from importlib.metadata import PackageNotFoundError, version

try:
    found = version("torch")
except PackageNotFoundError:
    print("none")
else:
    new_enough = tuple(int(part) for part in found.split("+")[0].split(".")[:2]) >= (2, 8)
    print("kept" if new_enough else "old", found)
PYTHON
}

make_environment() { # make_environment FOLDER: a new one; it sees the system's packages when the torch to keep is among them
  python=$(find_python) || exit 2
  share=
  if [ -z "${REGARD_VENV:-}" ] && "$python" -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then
    case $(torch_here "$python") in kept*) share=--system-site-packages ;; esac
  fi
  say "[1/2] making $1 with $("$python" -V 2>&1)${share:+, which keeps the torch that it has}"
  mkdir -p "$1"
  if ! "$python" -m venv $share "$1" >"$1/make.log" 2>&1; then
    tail -n 3 "$1/make.log" >&2
    rm -rf "$1"
    stop "$python could not make an environment (python -m venv)." \
      "Debian, Ubuntu: apt-get install python3-venv" \
      "Or activate an environment of yours first, then run $0 again."
  fi
}

watch() { # watch LOG COMMAND...: run it with its output in LOG, and say what it is at
  log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  child=$!
  trap 'kill "$child" 2>/dev/null; exit 130' INT TERM
  seconds=0
  while kill -0 "$child" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    now=$(grep -E '^ *(Collecting|Downloading|Processing|Preparing|Building|Installing)' "$log" | tail -n 1 | sed -e 's/^ *//' -e 's#^\([A-Z][a-z]* \)[^ ]*/#\1#' | cut -c 1-62)
    if [ -t 2 ]; then
      printf '\r\033[K  %4d s  %s' "$seconds" "$now" >&2
    elif [ $((seconds % 20)) = 0 ]; then
      say "      $seconds s  $now"
    fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
  trap - INT TERM
  wait "$child"
}

pip_install() { # pip_install LOG ARGUMENTS...
  log=$1
  shift
  if ! watch "$log" "$bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"; then
    grep -E '^(ERROR|error)|No space|Timeout' "$log" | tail -n 4 >&2 || tail -n 4 "$log" >&2
    stop "the installation failed; pip's full output is in $log." \
      "No network? pip needs the package index. Behind a proxy, set HTTPS_PROXY;" \
      "with a folder of wheels, set PIP_FIND_LINKS." \
      "Disk full? A CPU torch takes 1 GB, a CUDA one 6 GB." \
      "Then run $0 again; what is there is not fetched twice."
  fi
}

prepare() { # prepare EXTRA: after it, $bin has python and regard with that extra ("" for none)
  venv=${REGARD_VENV:-${VIRTUAL_ENV:-.venv}}
  bin=$venv/bin
  if [ -d "$venv/Scripts" ]; then bin=$venv/Scripts; fi
  if ! "$bin/python" -c '' 2>/dev/null; then make_environment "$venv"; fi
  case $venv in /*) ;; *) bin=$top/$bin ;; esac

  stamp=$venv/.regard-${1:-plain}
  state="$top $(cat pyproject.toml constraints.txt scripts/examined.txt | cksum)"
  if [ -x "$bin/regard" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$state" ]; then return; fi

  torch=$(torch_here "$bin/python")
  case $torch in
    none) set -- "$1" -c constraints.txt ; say "[2/2] installing torch 2.13.0 and regard${1:+ with the extra '$1'} (once; some minutes)" ;;
    kept*) say "[2/2] installing regard${1:+ with the extra '$1'}; torch ${torch#kept } is kept" ;;
    old*) stop "$venv has torch ${torch#old }, and regard needs 2.8 or newer." \
      "To leave that torch alone: run 'deactivate', then $0 again;" \
      "it makes an environment of its own in .venv." ;;
  esac
  extra=$1
  shift
  pip_install "$venv/install.log" "$@" -e ".${extra:+[$extra]}"
  printf '%s\n' "$state" >"$stamp"
  if [ "$extra" = dev ]; then printf '%s\n' "$state" >"$venv/.regard-test"; fi # dev contains test
}

examined() { # examined NAME...: packages of scripts/examined.txt (all when none is named), without what they ask for
  wanted=
  for line in $(grep -v '^#' scripts/examined.txt); do
    name=${line%%==*}
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    "$bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('$name') != '${line##*==}')" 2>/dev/null || wanted="$wanted $line"
  done
  if [ -z "$wanted" ]; then return; fi
  say "      installing to examine:$wanted"
  pip_install "$venv/examined.log" --no-deps $wanted
}
