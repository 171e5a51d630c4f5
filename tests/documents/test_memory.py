import subprocess
import sys

import pytest

from docagent_rl.documents.memory import require

_LIMITED = """
import resource
from pathlib import Path
from docagent_rl.documents.memory import require
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 28), taken + (1 << 28)))
require(0.2)
try:
    require(0.3)
except MemoryError as error:
    print(error)
"""


def test_a_limit_is_told_before_it_is_met():
    done = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=True)
    assert done.stdout == "0.3 GiB of memory are needed\n"


def test_without_a_limit_there_is_room():
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("this process is limited")
    require(1e6)
