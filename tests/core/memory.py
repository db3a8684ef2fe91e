"""The memory that a piece of code takes beyond what it started with, measured in a process of its own."""

import pathlib
import subprocess
import sys

import pytest

MEASURE = """
def resident(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = resident("VmRSS")
run()
print((resident("VmHWM") - before) / 1024)
"""


def extra_mebibytes(code: str) -> float:
    """The highest resident memory during `run()`, which `code` defines, minus what was resident before; MiB."""
    if not pathlib.Path("/proc/self/clear_refs").exists():
        pytest.skip("the high-water mark of memory is read from /proc, which this system has not")
    done = subprocess.run([sys.executable, "-c", code + MEASURE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.splitlines()[-1])
