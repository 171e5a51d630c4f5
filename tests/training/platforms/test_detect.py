from __future__ import annotations

import pytest
from verl.plugin.platform import PlatformRegistry

from docagent_rl.training.platforms import detect
from docagent_rl.training.platforms.detect import is_cpu_platform


@pytest.fixture(autouse=True)
def _no_accelerator(monkeypatch):
    """A host without accelerators, with no vLLM for them, that is asked for the first time."""
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    monkeypatch.setattr(detect, "has_accelerator_vllm", lambda: False)
    is_cpu_platform.cache_clear()
    for name in ("nvidia", "huawei", "amd"):
        monkeypatch.setattr(
            PlatformRegistry.get(name), "is_platform_available", lambda self, use_smi_check: False
        )
    yield
    is_cpu_platform.cache_clear()


@pytest.mark.parametrize(
    ("value", "expected"), [("cpu", True), (" CPU ", True), ("nvidia", False), ("", True)]
)
def test_environment_variable_decides_once(monkeypatch, value, expected):
    monkeypatch.setenv("VERL_PLATFORM", value)
    assert is_cpu_platform() is expected
    monkeypatch.setenv("VERL_PLATFORM", "nvidia" if expected else "cpu")
    assert is_cpu_platform() is expected


@pytest.mark.parametrize("name", ["nvidia", "huawei", "amd"])
def test_any_accelerator_wins_and_is_probed_as_verl_does(monkeypatch, name):
    probes = []
    found = lambda self, use_smi_check: probes.append(use_smi_check) or True  # noqa: E731
    monkeypatch.setattr(PlatformRegistry.get(name), "is_platform_available", found)
    assert not is_cpu_platform()
    assert probes == [True]
    is_cpu_platform.cache_clear()
    monkeypatch.setenv("VERL_PLATFORM", "cpu")  # asked for: there is no probe
    assert is_cpu_platform()
    assert probes == [True]


def test_head_node_of_a_gpu_cluster_keeps_verls_choice(monkeypatch):
    monkeypatch.setattr(detect, "has_accelerator_vllm", lambda: True)
    assert not is_cpu_platform()


@pytest.mark.parametrize(
    ("version", "expected"), [("0.24.0", True), ("0.24.0+cpu", False), ("0.24.0+cu128", True)]
)
def test_build_of_vllm(monkeypatch, version, expected):
    monkeypatch.undo()
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    assert detect.has_accelerator_vllm() is expected
