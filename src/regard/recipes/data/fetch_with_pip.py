"""Run by `packages.py` in a process of its own: pip finds and checks an archive, and is stopped before it looks into it.

`python fetch_with_pip.py FOLDER REQUIREMENTS KIND`: `pip download` would run the build script of a source distribution to learn its
metadata. Here the archive is copied to FOLDER the moment that its hash has been checked, and the process ends: exit status 0.
Exit status 3: this pip is built otherwise than expected, so a source distribution is not asked for. A wheel is: nothing of it is run.
"""

import os
import runpy
import shutil
import sys


def main() -> None:
    """Fetch one archive."""
    folder, requirements, kind = sys.argv[1:4]
    only = "--no-binary" if kind == "source" else "--only-binary"
    arguments = ["download", "--no-deps", "--require-hashes", only, ":all:", "--no-cache-dir", "-d", folder]
    arguments += ["--progress-bar", "off", "-r", requirements]
    try:
        import pip._internal.operations.prepare as prepare

        prepare._get_prepared_distribution  # noqa: B018 - fails here, and not after the download
    except (ImportError, AttributeError):
        if kind == "source":
            sys.exit(3)
    else:

        def stop(requirement, *arguments, **options):
            path = requirement.local_file_path
            shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))
            sys.stdout.flush()
            os._exit(0)

        prepare._get_prepared_distribution = stop
    sys.argv = ["pip", *arguments]
    runpy.run_module("pip", run_name="__main__")  # of a wheel nothing is run in any case


if __name__ == "__main__":
    main()
