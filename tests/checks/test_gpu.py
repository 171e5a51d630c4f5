from __future__ import annotations

import importlib
import sys

import pytest

from docagent_rl.checks import gpu
from docagent_rl.checks.gpu import Gpus, ask_driver, check_attention, check_driver, check_varlen, read_gpus
from docagent_rl.training import hardware
from docagent_rl.training.hardware import without_flash_attn

TWO = "580.95.05, NVIDIA H100 80GB HBM3\n580.95.05, NVIDIA H100 80GB HBM3\n"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure.\n\n"
NEW, OLD = Gpus("580.65.06", ("NVIDIA H100",)), Gpus("570.133.20", ("NVIDIA A100",))


@pytest.mark.parametrize(
    ("output", "status", "words"),
    [
        (NO_DRIVER, 9, "NVIDIA-SMI has failed because it couldn't communicate"),
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
    ("gpus", "cuda", "usable", "advice"),
    [
        (NEW, "13.0", False, ""),
        (OLD, "13.0", False, "13.0, which needs driver 580"),
        (OLD, "13.0", True, ""),  # by CUDA's forward compatibility
        (OLD, "12.8", False, ""),
        (Gpus("470.82.01", ("NVIDIA V100",)), "12.8", False, "12.8"),
        (Gpus("1000.5", ("NVIDIA X",)), "13.0", False, ""),
        (NEW, None, False, " "),
    ],
)
def test_driver_has_to_fit_the_wheels(gpus, cuda, usable, advice):
    finding = check_driver(gpus, cuda, usable, wanted=True)
    assert (finding.blocks, bool(finding.advice)) == (bool(advice), bool(advice))
    assert advice in finding.advice
    assert finding.value.startswith(gpus.driver)


def test_nvidia_smi_of_this_machine_is_asked(tmp_path, monkeypatch):
    assert read_gpus(TWO) == Gpus("580.95.05", ("NVIDIA H100 80GB HBM3",) * 2)
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


@pytest.fixture
def flash_attn(tmp_path, monkeypatch):
    """Installs it where training is on a GPU."""
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
    assert check_attention() == gpu.Finding("attention", "flash-attn 2.8.3")
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: True)
    assert without_flash_attn()
    assert not check_attention().blocks


def test_flash_attn_that_transformers_would_not_take_is_none(flash_attn):
    flash_attn("2.3.2")
    assert without_flash_attn()


def test_flash_attn_that_cannot_be_imported_blocks(flash_attn):
    flash_attn("2.8.3", 'raise ImportError("undefined symbol: _ZN3c10")')
    finding = check_attention()
    assert (finding.blocks, "undefined symbol: _ZN3c10" in finding.advice) == (True, True)


def test_gpu_has_to_know_flash_attention():
    assert not check_varlen("2.11.0+cu130", (9, 0)).blocks
    finding = check_varlen("2.11.0+cu130", (7, 5))
    assert finding.blocks
    assert " 7.5, " in finding.advice
