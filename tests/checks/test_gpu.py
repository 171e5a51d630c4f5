import importlib
import sys
from pathlib import Path

import pytest
import torch

from docagent_rl.checks.gpu import (
    DELTA_VERSION,
    ask_gpus,
    check_attention,
    check_delta_layers,
    check_driver,
    gpu_memory,
)
from docagent_rl.training import hardware
from docagent_rl.training.hardware import without_flash_attn


@pytest.mark.parametrize(
    ("driver", "cuda", "advice"),
    [
        (["570.133.20"], "13.0", "CUDA 13.0"),
        (["570.133.20"], None, "no CUDA"),
        ("No devices were found", "13.0", "cannot reach the driver"),
    ],
)
def test_driver_has_to_fit_the_wheels(driver, cuda, advice):
    finding = check_driver(driver, cuda, wanted=True)
    assert finding.blocks
    assert advice in finding.advice
    assert not check_driver(driver, cuda, wanted=False).blocks


def test_nvidia_smi_of_this_machine_is_asked(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_gpus("name") is gpu_memory() is None
    for script, expected in (
        ('[ "$1" = "--query-gpu=memory.total" ] && printf "81559\\n40960\\n"', 40960 << 20),
        ("echo broken >&2\nexit 3", None),
        ("echo No devices were found", None),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert gpu_memory() == expected
    assert ask_gpus("memory.total") == "No devices were found"


@pytest.fixture
def flash_attn(tmp_path, monkeypatch):
    """Return a function that installs flash-attn on a machine that trains on a GPU."""
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: False)
    monkeypatch.syspath_prepend(tmp_path)

    def install(version: str, text: str = "") -> None:
        (tmp_path / "flash_attn.py").write_text(text)
        metadata = tmp_path / f"flash_attn-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: flash-attn\nVersion: {version}\n")
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("flash_attn", None)


def test_flash_attn_is_taken_where_it_is_installed(flash_attn, monkeypatch):
    assert without_flash_attn()
    flash_attn("2.8.3")
    assert not without_flash_attn()
    assert (check_attention().value, check_attention().blocks) == ("flash-attn 2.8.3", False)
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: True)
    assert without_flash_attn()
    assert not check_attention().blocks


def test_flash_attn_that_cannot_be_imported_blocks(flash_attn):
    flash_attn("2.8.3", 'raise ImportError("undefined symbol: _ZN3c10")')
    finding = check_attention()
    assert (finding.blocks, "undefined symbol: _ZN3c10" in finding.advice) == (True, True)


def test_gpu_has_to_know_flash_attention(monkeypatch):
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for capability, said in (((9, 0), ""), ((7, 5), " 7.5, ")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda each=capability: each)
        finding = check_attention()
        assert (finding.blocks, said in finding.advice) == (bool(said), True)


@pytest.mark.parametrize(
    ("cpu", "version", "value", "advice"),
    [
        (True, None, "on the CPU", ""),
        (False, None, "torch, row by row", f"flash-linear-attention=={DELTA_VERSION}"),
        (False, DELTA_VERSION, f"flash-linear-attention {DELTA_VERSION}", ""),
    ],
)
def test_what_computes_delta_layers_is_named(monkeypatch, cpu, version, value, advice):
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: cpu)
    monkeypatch.setattr(hardware, "installed_version", lambda package: version)
    finding = check_delta_layers()
    assert value in finding.value
    assert not finding.blocks  # torch computes the same
    assert advice in finding.advice
    assert bool(finding.advice) is bool(advice)


def test_the_kernels_that_the_doctor_names_are_those_of_the_pins():
    pins = (Path(__file__).parents[2] / "requirements" / "gpu.txt").read_text()
    assert f"\nflash-linear-attention=={DELTA_VERSION} " in pins
    assert f"\nfla-core=={DELTA_VERSION} " in pins
    # without them, on Hopper, the kernel's backward pass ends with an error
    assert "\ntilelang==" in pins
    assert "\nnvidia-cuda-nvcc==13" in pins
