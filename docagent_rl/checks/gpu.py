"""Checks of an NVIDIA GPU: the driver's version, and the attention kernels."""

import importlib
import shutil
import subprocess
from dataclasses import dataclass

from docagent_rl.training.hardware import TORCH_VARLEN, flash_attn_version

OLDEST_CAPABILITY = (8, 0)
"""Ampere: the flash attention of flash-attn and of torch supports nothing older."""
MACHINE = "machine"
DELTA_KERNELS = "flash-linear-attention"
DELTA_VERSION = "0.5.2"
"""The package that transformers and verl use for the gated delta rule, and verl's version of it."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding of the doctor, with advice if there is something to do."""

    where: str
    name: str
    value: str
    advice: str = ""
    blocks: bool = False
    """True if it prevents training from starting."""


def ask_gpus(field: str) -> list[str] | str | None:
    """Query a numeric field of each GPU with `nvidia-smi`.

    Returns:
        One value per GPU; the error as text; or None if there is no `nvidia-smi`.
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
        return lines[0] if lines else f"no output, status {answer.returncode}"
    return lines


def gpu_memory() -> int | None:
    """Return the memory of this machine's smallest GPU in bytes, from the driver; None without
    GPUs.
    """
    sizes = ask_gpus("memory.total")  # in MiB
    return min(map(int, sizes)) << 20 if isinstance(sizes, list) else None


def check_gpu() -> list[DoctorFinding]:
    """Check the accelerators that torch sees and, if torch cannot use any, the driver."""
    import torch

    from docagent_rl.training.hardware import is_cpu_platform

    if torch.cuda.is_available():  # then the driver is good enough, perhaps by compatibility mode
        value = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
        return [DoctorFinding(MACHINE, "accelerator", value)]
    found = [DoctorFinding(MACHINE, "accelerator", "none (platform cpu)")]
    driver = ask_gpus("driver_version")
    if driver is not None:
        found.append(check_driver(driver, torch.version.cuda, wanted=not is_cpu_platform()))
    return found


def check_driver(driver: list[str] | str, cuda: str | None, *, wanted: bool) -> DoctorFinding:
    """Explain why torch cannot use a GPU whose driver has this version, or did not respond.

    `cuda` is the CUDA version of the torch build, such as `13.0`, or None; `wanted` says whether
    verl would train on the GPU.
    """
    if isinstance(driver, str):
        advice = (
            "nvidia-smi cannot reach the driver: load its kernel module, or start the container "
            "with GPUs"
        )
    elif cuda is None:
        advice = "this build of torch has no CUDA: set up with PINS=gpu make setup"
    else:
        advice = (
            f"torch sees no GPU: check that the driver supports CUDA {cuda}, and that "
            "CUDA_VISIBLE_DEVICES does not hide the GPU"
        )
    value = driver if isinstance(driver, str) else driver[0]
    return DoctorFinding(MACHINE, "NVIDIA driver", value, advice, blocks=wanted and bool(advice))


def check_attention() -> DoctorFinding:
    """Name the implementation of flash attention in this process, and what prevents its use."""
    import torch

    from docagent_rl.training.hardware import is_cpu_platform, without_flash_attn

    value = f"{TORCH_VARLEN} of torch {torch.__version__}"
    advice = ""
    if is_cpu_platform():  # even if the machine has a GPU
        value = "row by row, on the CPU"
    elif not without_flash_attn():
        value = f"flash-attn {flash_attn_version()}"
        try:
            importlib.import_module("flash_attn")
        except ImportError as error:
            advice = f"it cannot be imported ({error}): uninstall it to use torch's kernels instead"
    elif (
        torch.cuda.is_available()
        and (found := torch.cuda.get_device_capability()) < OLDEST_CAPABILITY
    ):
        has, needs = (".".join(map(str, numbers)) for numbers in (found, OLDEST_CAPABILITY))
        advice = (
            f"the GPU's compute capability is {has}, but flash attention needs {needs}: use "
            "another GPU, or attn_implementation=sdpa with use_remove_padding=False"
        )
    return DoctorFinding(MACHINE, "attention", value, advice, blocks=bool(advice))


def check_delta_layers() -> DoctorFinding:
    """Name the implementation of Qwen3.5's delta layers on the platform of this process."""
    from docagent_rl.training.hardware import installed_version, is_cpu_platform

    kernels = installed_version(DELTA_KERNELS)
    advice = ""
    if is_cpu_platform():
        value = "torch, row by row, on the CPU"
    elif kernels is None:
        value = "torch, row by row"
        advice = (
            "correct, but slower and with more memory than kernels: pip install "
            f"{DELTA_KERNELS}=={DELTA_VERSION}"
        )
    else:
        value = f"{DELTA_KERNELS} {kernels}"
    return DoctorFinding(MACHINE, "delta layers of Qwen3.5", value, advice)
