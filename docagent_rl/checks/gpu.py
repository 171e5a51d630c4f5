"""Checks of an NVIDIA GPU: a new enough driver, and kernels of attention."""

import importlib
import shutil
import subprocess
from dataclasses import dataclass

from docagent_rl.training.hardware import TORCH_VARLEN, flash_attn_version

OLDEST_CAPABILITY = (8, 0)
"""Ampere: flash attention, of flash-attn and of torch, knows nothing older."""
MACHINE = "machine"
DELTA_KERNELS = "flash-linear-attention"
DELTA_VERSION = "0.5.2"
"""The package that transformers and verl take for the gated delta rule, and verl's version of
it.
"""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding of the doctor, for people, with advice if there is something to do."""

    where: str
    name: str
    value: str
    advice: str = ""
    blocks: bool = False
    """Training cannot start so."""


def ask_gpus(field: str) -> list[str] | str | None:
    """Ask `nvidia-smi` for a number of each GPU; return its error in words, or None where there is
    none.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in (answer.stdout or answer.stderr).splitlines() if line.strip()]
    if answer.returncode or not all(line[0].isdigit() for line in lines) or not lines:
        return lines[0] if lines else f"no answer, status {answer.returncode}"
    return lines


def gpu_memory() -> int | None:
    """Return the bytes of the smallest GPU of this machine, by the driver; None where there is
    none.
    """
    sizes = ask_gpus("memory.total")  # in MiB
    return min(map(int, sizes)) << 20 if isinstance(sizes, list) else None


def check_gpu() -> list[DoctorFinding]:
    """Look at the accelerators that torch sees, and at the driver, where torch cannot use one."""
    import torch

    from docagent_rl.training.hardware import is_cpu_platform

    if torch.cuda.is_available():  # then the driver will do, be it by forward compatibility
        value = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
        return [DoctorFinding(MACHINE, "accelerator", value)]
    found = [DoctorFinding(MACHINE, "accelerator", "none (platform cpu)")]
    driver = ask_gpus("driver_version")
    if driver is not None:
        found.append(check_driver(driver, torch.version.cuda, wanted=not is_cpu_platform()))
    return found


def check_driver(driver: list[str] | str, cuda: str | None, *, wanted: bool) -> DoctorFinding:
    """Say what keeps torch from a GPU whose driver has this version, or did not answer.

    `cuda` is that of the build, such as `13.0`, or None; `wanted` whether verl would train on the
    GPU.
    """
    if isinstance(driver, str):
        advice = (
            "nvidia-smi does not reach the driver: load its kernel module, or give the "
            "container GPUs"
        )
    elif cuda is None:
        advice = "torch is a build without CUDA: set up with PINS=gpu make setup"
    else:
        advice = (
            f"torch sees no GPU: is the driver new enough for CUDA {cuda}, and the GPU not hidden?"
        )
    value = driver if isinstance(driver, str) else driver[0]
    return DoctorFinding(MACHINE, "NVIDIA driver", value, advice, blocks=wanted and bool(advice))


def check_attention() -> DoctorFinding:
    """Name the way of flash attention that this process takes, and what keeps its GPU or package
    from it.
    """
    import torch

    from docagent_rl.training.hardware import is_cpu_platform, without_flash_attn

    value = f"{TORCH_VARLEN} of torch {torch.__version__}"
    advice = ""
    if is_cpu_platform():  # whatever the GPU beside it can do
        value = "row by row, on the processor"
    elif not without_flash_attn():
        value = f"flash-attn {flash_attn_version()}"
        try:
            importlib.import_module("flash_attn")
        except ImportError as error:
            advice = f"it cannot be imported ({error}): uninstall it, then torch's kernels are used"
    elif (
        torch.cuda.is_available()
        and (found := torch.cuda.get_device_capability()) < OLDEST_CAPABILITY
    ):
        has, needs = (".".join(map(str, numbers)) for numbers in (found, OLDEST_CAPABILITY))
        advice = (
            f"the GPU's compute capability is {has}, flash attention needs {needs}: use another "
            "GPU, or "
            "attn_implementation=sdpa with use_remove_padding=False"
        )
    return DoctorFinding(MACHINE, "attention", value, advice, blocks=bool(advice))


def check_delta_layers() -> DoctorFinding:
    """Name what computes the delta layers of Qwen3.5, on this process's platform."""
    from docagent_rl.training.hardware import installed_version, is_cpu_platform

    kernels = installed_version(DELTA_KERNELS)
    advice = ""
    if is_cpu_platform():
        value = "by torch, a row at a time, on the processor"
    elif kernels is None:
        value = "by torch, a row at a time"
        advice = (
            "right, slower and with more memory; kernels: pip install "
            f"{DELTA_KERNELS}=={DELTA_VERSION}"
        )
    else:
        value = f"{DELTA_KERNELS} {kernels}"
    return DoctorFinding(MACHINE, "delta layers of Qwen3.5", value, advice)
