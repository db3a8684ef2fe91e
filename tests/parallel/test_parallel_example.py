"""The example runs under torchrun."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch.distributed as dist


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
def test_two_processes_under_torchrun_print_that_they_agree_with_one():
    path = pathlib.Path(__file__).parents[2] / "examples" / "sequence_parallel.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    found = re.findall(r"2 processes, (\w+) *, .*: (\S+) from one process, +(\d+) KiB sent", done.stdout)
    assert len(found) == 4, done.stderr
    assert all(float(apart) <= 1e-5 for _, apart, _ in found)
    assert min(found, key=lambda row: int(row[2]))[0] == "allgather"
