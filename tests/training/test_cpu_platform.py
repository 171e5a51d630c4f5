import pytest
import verl.workers.engine.fsdp.transformer_impl  # noqa: F401
from verl.plugin.platform import PlatformRegistry

from docagent_rl.training import cpu_platform as cpu
from docagent_rl.training import hardware
from docagent_rl.training.hardware import is_cpu_platform

ACCELERATORS = ("nvidia", "huawei", "amd")


@pytest.fixture
def bare(monkeypatch):
    """Set up a host without accelerators and without vLLM for them, as at the first query."""
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    for module in (hardware, cpu):
        monkeypatch.setattr(module, "has_accelerator_vllm", lambda: False)
    for name in ACCELERATORS:
        monkeypatch.setattr(
            PlatformRegistry.get(name), "is_platform_available", lambda self, use_smi_check: False
        )
    is_cpu_platform.cache_clear()
    yield
    is_cpu_platform.cache_clear()


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("value", "expected"), [("cpu", True), (" CPU ", True), ("nvidia", False), ("", True)]
)
def test_environment_variable_decides_once(monkeypatch, value, expected):
    monkeypatch.setenv("VERL_PLATFORM", value)
    assert is_cpu_platform() is expected
    monkeypatch.setenv("VERL_PLATFORM", "nvidia" if expected else "cpu")
    assert is_cpu_platform() is expected


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ACCELERATORS)
def test_any_accelerator_wins_and_is_probed_as_verl_does(monkeypatch, name):
    probes = []
    found = lambda self, use_smi_check: probes.append(use_smi_check) or True  # noqa: E731
    monkeypatch.setattr(PlatformRegistry.get(name), "is_platform_available", found)
    assert not is_cpu_platform()
    is_cpu_platform.cache_clear()
    monkeypatch.setenv("VERL_PLATFORM", "cpu")  # asked for: there is no probe
    assert is_cpu_platform()
    assert probes == [True]


@pytest.mark.usefixtures("bare")
def test_head_node_of_a_gpu_cluster_keeps_verls_choice(monkeypatch):
    monkeypatch.setattr(hardware, "has_accelerator_vllm", lambda: True)
    assert not is_cpu_platform()


@pytest.mark.parametrize(
    ("version", "expected"), [("0.24.0", True), ("0.24.0+cpu", False), ("0.24.0+cu128", True)]
)
def test_build_of_vllm(monkeypatch, version, expected):
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    assert hardware.has_accelerator_vllm() is expected
