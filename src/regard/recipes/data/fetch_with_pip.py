"""Run by `packages.py` in a process of its own: pip finds and checks an archive, and is stopped before it looks into it.

`python fetch_with_pip.py FOLDER REQUIREMENTS KIND`: `pip download` would run the build script of a source distribution to learn its
metadata. Here the archive is copied to FOLDER the moment that its hash has been checked, and the process ends: exit status 0.
Exit status 3: this pip is built otherwise than expected, and nothing was copied.
"""

import os
import shutil
import sys


def main() -> None:
    """Fetch one archive."""
    folder, requirements, kind = sys.argv[1:4]
    try:
        import pip._internal.operations.prepare as prepare
        from pip._internal.cli.main import main as pip

        prepare._get_prepared_distribution  # noqa: B018 - fails here, and not after the download
    except (ImportError, AttributeError):
        sys.exit(3)

    def stop(requirement, *arguments, **options):
        path = requirement.local_file_path
        shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))
        sys.stdout.flush()
        os._exit(0)

    prepare._get_prepared_distribution = stop
    only = "--no-binary" if kind == "source" else "--only-binary"
    arguments = ["download", "--no-deps", "--require-hashes", only, ":all:", "--no-cache-dir", "-d", folder]
    sys.exit(pip([*arguments, "--progress-bar", "off", "-r", requirements]) or 4)


if __name__ == "__main__":
    main()
