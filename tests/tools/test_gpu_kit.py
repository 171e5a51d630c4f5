"""What tools/gpu_kit.sh packs: every name has a pin, and scripts are well formed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "gpu_kit.sh"


def names() -> list[str]:
    (block,) = re.findall(r"^names=\((.*?)\)$", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    return block.split()


def test_every_name_has_a_pin():
    pins = re.findall(
        r"^([A-Za-z0-9_.\-]+)(?:\[.*\])?==", (ROOT / "requirements" / "gpu.txt").read_text(), re.MULTILINE
    )
    pinned = {re.sub(r"[_.]", "-", pin.lower()) for pin in pins}
    assert sorted(set(names()) - pinned) == []
    assert len(names()) == len(set(names()))


def test_nothing_is_packed_that_the_image_has_or_that_is_too_large():
    assert not {"torch", "triton", "vllm", "numpy", "pyarrow", "pandas", "torchvision"} & set(names())


def test_the_script_is_bash():
    assert subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode == 0
