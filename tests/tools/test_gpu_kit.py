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
    # what the image has, or what is too large
    assert not {"torch", "triton", "vllm", "numpy", "pyarrow", "pandas", "torchvision"} & set(names())
    assert subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode == 0
