from __future__ import annotations

import importlib
import sys

import pytest

from docagent_rl.checks import gpu
from docagent_rl.checks.gpu import Gpus, ask_driver, check_attention, check_driver, check_varlen, read_gpus
from docagent_rl.training.attention import ways
from docagent_rl.training.attention.ways import AttentionWay, attention_way, fitting_flash_attn
from docagent_rl.training.platforms import detect

TWO = "580.95.05, NVIDIA H100 80GB HBM3\n580.95.05, NVIDIA H100 80GB HBM3\n"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n\n"
)
NEW, OLD = Gpus("580.65.06", ("NVIDIA H100",)), Gpus("570.133.20", ("NVIDIA A100",))


def test_answer_of_nvidia_smi_is_read():
    assert read_gpus(TWO) == Gpus("580.95.05", ("NVIDIA H100 80GB HBM3",) * 2)


@pytest.mark.parametrize(
    ("output", "status", "words"),
    [
        (NO_DRIVER, 9, "NVIDIA-SMI has failed because it couldn't communicate"),
        ("No devices were found\n", 6, "No devices were found"),
        ("No devices were found\n", 0, "No devices were found"),
        ("", 0, "no answer, status 0"),
    ],
)
def test_nvidia_smi_that_fails_is_an_error_in_its_own_words(output, status, words):
    found = read_gpus(output, status)
    assert found.error.startswith(words)
    assert (found.driver, found.names) == ("", ())
    assert check_driver(found, "13.0", usable=False, wanted=True).blocks
    assert not check_driver(found, "13.0", usable=False, wanted=False).blocks


@pytest.mark.parametrize(
    ("gpus", "cuda", "usable", "blocks"),
    [
        (NEW, "13.0", False, False),
        (OLD, "13.0", False, True),
        (OLD, "13.2", False, True),
        (OLD, "13.0", True, False),  # by CUDA's forward compatibility
        (OLD, "12.8", False, False),
        (Gpus("470.82.01", ("NVIDIA V100",)), "12.8", False, True),
        (Gpus("1000.5", ("NVIDIA X",)), "13.0", False, False),
        (NEW, None, False, True),
    ],
)
def test_driver_has_to_fit_the_wheels(gpus, cuda, usable, blocks):
    finding = check_driver(gpus, cuda, usable, wanted=True)
    assert finding.blocks is blocks
    assert bool(finding.advice) is blocks
    assert finding.value.startswith(gpus.driver)


def test_advice_names_the_driver_that_is_needed():
    finding = check_driver(OLD, "13.0", usable=False, wanted=True)
    assert finding.value == "570.133.20 (NVIDIA A100)"
    assert "CUDA 13.0, which needs driver 580 or later" in finding.advice


def test_nvidia_smi_of_this_machine_is_asked(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_driver() is None
    program.write_text(
        '#!/bin/sh\n[ "$1 $2" = "--query-gpu=driver_version,name --format=csv,noheader" ] || exit 1\n'
        'echo "580.95.05, NVIDIA H100"\n'
    )
    program.chmod(0o755)
    assert ask_driver() == Gpus("580.95.05", ("NVIDIA H100",))
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    assert ask_driver() == Gpus(error="broken")


def install_flash_attn(folder, version: str, text: str = "") -> None:
    (folder / "flash_attn.py").write_text(text)
    metadata = folder / f"flash_attn-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: flash-attn\nVersion: {version}\n")
    importlib.invalidate_caches()


@pytest.fixture
def gpu_platform(tmp_path, monkeypatch):
    """A process that trains on a GPU, with a folder of packages."""
    monkeypatch.setattr(detect, "is_cpu_platform", lambda: False)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("flash_attn", None)


def test_flash_attn_is_taken_where_it_is_installed(gpu_platform, monkeypatch):
    assert attention_way() is AttentionWay.TORCH_VARLEN
    install_flash_attn(gpu_platform, "2.8.3")
    assert attention_way() is AttentionWay.FLASH_ATTN
    assert not ways.without_flash_attn()
    assert check_attention() == gpu.Finding("flash-attn 2.8.3")
    monkeypatch.setattr(detect, "is_cpu_platform", lambda: True)
    assert attention_way() is AttentionWay.TORCH_VARLEN
    assert check_attention() == gpu.Finding("row by row, on the processor")


@pytest.mark.parametrize("version", ["2.3.2", "2.0.0"])
def test_flash_attn_that_transformers_would_not_take_is_none(gpu_platform, version):
    install_flash_attn(gpu_platform, version)
    assert attention_way() is AttentionWay.TORCH_VARLEN


def test_flash_attn_that_cannot_be_imported_blocks(gpu_platform):
    install_flash_attn(gpu_platform, "2.8.3", 'raise ImportError("undefined symbol: _ZN3c10")')
    finding = check_attention()
    assert finding.blocks
    assert "undefined symbol: _ZN3c10" in finding.advice
    assert "uninstall it, then torch's kernels are used" in finding.advice


def test_build_of_flash_attn_fits_the_environment():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    words = fitting_flash_attn("2.11.0+cu130", "13.0")
    assert f"flash-attn 2.8.3 for CUDA 13, torch 2.11, {python}" in words
    assert "pip install --no-build-isolation --no-deps flash-attn==2.8.3" in words


def test_gpu_has_to_know_flash_attention():
    assert not check_varlen("2.11.0+cu130", "13.0", (9, 0)).blocks
    finding = check_varlen("2.11.0+cu130", "13.0", (7, 5))
    assert finding.blocks
    assert "compute capability is 7.5, flash attention needs 8.0" in finding.advice
