"""Checks of an NVIDIA GPU: a new enough driver, and kernels of attention."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from docagent_rl.training.hardware import TORCH_VARLEN, flash_attn_version

QUERY = ("--query-gpu=driver_version,name", "--format=csv,noheader")
OLDEST_DRIVERS = {13: "580", 12: "525.60.13"}
"""By CUDA's major version (CUDA Toolkit release notes, table of minor version compatibility)."""
OLDEST_CAPABILITY = (8, 0)
"""Ampere: flash attention, of flash-attn and of torch, knows nothing older."""


@dataclass(frozen=True)
class Finding:
    """One property of the machine, for people, with advice if there is something to do."""

    name: str
    value: str
    advice: str = ""
    blocks: bool = False
    """Training cannot start so."""


@dataclass(frozen=True)
class Gpus:
    """The answer of `nvidia-smi` about the GPUs of this machine, or the error that it printed instead."""

    driver: str = ""
    names: tuple[str, ...] = ()
    error: str = ""


def read_gpus(output: str, status: int = 0) -> Gpus:
    """Read the answer of `nvidia-smi` to `QUERY`: a line a GPU, or an error in words."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    rows = [line.split(",", 1) for line in lines]
    if status or not rows or any(len(row) != 2 for row in rows):
        return Gpus(error=lines[0] if lines else f"no answer, status {status}")
    return Gpus(rows[0][0].strip(), tuple(name.strip() for _, name in rows))


def ask_driver() -> Gpus | None:
    """Ask `nvidia-smi`; return None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus(error=f"{type(error).__name__}: {error}")
    return read_gpus(answer.stdout or answer.stderr, answer.returncode)


def check_gpu() -> list[Finding]:
    """Look at the accelerators that torch sees, and at the driver, if there is one."""
    import torch

    from docagent_rl.training.hardware import is_cpu_platform

    usable = torch.cuda.is_available()
    value = (
        f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}" if usable else "none (platform cpu)"
    )
    found, gpus = [Finding("accelerator", value)], ask_driver()
    if gpus is not None:
        found.append(check_driver(gpus, torch.version.cuda, usable, not is_cpu_platform()))
    return found


def check_driver(gpus: Gpus, cuda: str | None, usable: bool, wanted: bool) -> Finding:
    """Compare the driver with what torch's build of CUDA needs.

    Args:
        gpus: the answer of the driver.
        cuda: the CUDA that torch was built for, such as `13.0`; None for builds without CUDA.
        usable: whether torch can compute on the GPU: then the driver will do, by forward compatibility.
        wanted: whether verl would train on the GPU.
    """
    value, oldest = gpus.driver, OLDEST_DRIVERS.get(int((cuda or "0").partition(".")[0]))
    try:
        enough = oldest is None or usable or Version(gpus.driver) >= Version(oldest)
    except InvalidVersion:
        enough = False
    if gpus.error:
        value = gpus.error
        advice = (
            "nvidia-smi does not reach the driver: load its kernel module, or give the container the GPUs"
        )
    elif cuda is None:
        advice = "torch is a build without CUDA: set up with PINS=gpu make setup"
    elif enough:
        return Finding("NVIDIA driver", value)
    else:
        value = f"{gpus.driver} ({gpus.names[0]})"
        advice = f"the wheels are for CUDA {cuda}, which needs driver {oldest} or later: install one"
    return Finding("NVIDIA driver", value, advice, blocks=wanted)


def check_attention() -> Finding:
    """Name the way of flash attention that this process takes."""
    import torch

    from docagent_rl.training.hardware import is_cpu_platform, without_flash_attn

    if is_cpu_platform():  # whatever the GPU beside it can do
        return Finding("attention", "row by row, on the processor")
    if not without_flash_attn():
        return _check_flash_attn()
    if not torch.cuda.is_available():
        return Finding("attention", f"{TORCH_VARLEN} of torch {torch.__version__}")
    return check_varlen(torch.__version__, torch.cuda.get_device_capability())


def check_varlen(torch_version: str, capability: tuple[int, int]) -> Finding:
    """Check torch's kernels on a GPU of `capability`."""
    value = f"{TORCH_VARLEN} of torch {torch_version}"
    if capability >= OLDEST_CAPABILITY:
        return Finding("attention", value)
    found, needed = (".".join(map(str, numbers)) for numbers in (capability, OLDEST_CAPABILITY))
    advice = (
        f"the GPU's compute capability is {found}, flash attention needs {needed}: use another GPU, or "
        "attn_implementation=sdpa with use_remove_padding=False"
    )
    return Finding("attention", value, advice, blocks=True)


def _check_flash_attn() -> Finding:
    value = f"flash-attn {flash_attn_version()}"
    try:
        importlib.import_module("flash_attn")
    except ImportError as error:
        advice = f"it cannot be imported ({error}): uninstall it, then torch's kernels are used"
        return Finding("attention", value, advice, blocks=True)
    return Finding("attention", value)
