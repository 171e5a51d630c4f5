from __future__ import annotations

import copy

import numpy as np
import psutil
import pytest
import torch
import verl.plugin.platform.platform_manager as manager
from verl.plugin.platform import PlatformRegistry

from docagent_rl.training.platforms import cpu
from docagent_rl.training.platforms.cpu import PlatformCPU


@pytest.fixture
def device():
    return PlatformCPU().device_module


def test_memory_is_that_of_the_process_and_the_host(device):
    resident = psutil.Process().memory_info().rss
    assert device.memory_allocated() == pytest.approx(resident, rel=0.2)
    before = device.memory_allocated()
    ballast = np.ones(50_000_000, dtype=np.uint8)
    grown = device.memory_allocated() - before
    assert grown > 0.8 * ballast.nbytes
    assert device.max_memory_allocated() >= device.memory_allocated() - 1_000_000
    available, total = device.mem_get_info()
    assert 0 < available <= total == psutil.virtual_memory().total


def test_random_state_is_saved_and_restored(device):
    device.manual_seed(3)
    state = device.get_rng_state()
    first = torch.rand(4)
    device.set_rng_state(state)
    assert torch.equal(torch.rand(4), first)


def test_verls_memory_report_accepts_the_module(monkeypatch):
    from verl.utils.profiler import performance

    monkeypatch.setattr(manager, "_current_platform", PlatformCPU())
    allocated, _, used, total = map(float, performance._get_current_mem_info())
    assert 0 < allocated <= used + 1
    assert used < total


@pytest.fixture
def registries(monkeypatch):
    import verl.workers.engine.fsdp.transformer_impl  # noqa: F401
    from verl.workers.engine.base import EngineRegistry

    platforms = {name: cls for name, cls in PlatformRegistry._platforms.items() if name != "cpu"}
    monkeypatch.setattr(PlatformRegistry, "_platforms", platforms)
    engines = copy.deepcopy(EngineRegistry._engines)
    for backends in engines.values():
        for devices in backends.values():
            devices.pop("cpu", None)
    monkeypatch.setattr(EngineRegistry, "_engines", engines)
    return EngineRegistry


def test_registration_serves_platform_and_engines(registries, monkeypatch):
    monkeypatch.setattr(cpu, "is_cpu_platform", lambda: True)
    monkeypatch.setattr(manager, "_current_platform", PlatformCPU())
    assert cpu.register()
    assert cpu.register()
    assert PlatformRegistry.get("cpu") is PlatformCPU
    for model_type, name in (("language_model", "LMHead"), ("value_model", "ValueHead")):
        assert registries.get_engine_cls(model_type, "fsdp2").__name__ == f"FSDPEngineWith{name}"


def test_nothing_is_registered_beside_an_accelerator(registries, monkeypatch):
    monkeypatch.setattr(cpu, "is_cpu_platform", lambda: False)
    assert not cpu.register()
    assert PlatformRegistry.get("cpu") is None
    assert "cpu" not in registries._engines["language_model"]["fsdp2"]


def test_automatic_choice_of_verl_falls_on_the_processor(registries, monkeypatch):
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    for name in ("nvidia", "huawei", "amd"):
        monkeypatch.setattr(
            PlatformRegistry.get(name), "is_platform_available", lambda self, use_smi_check: False
        )
    monkeypatch.setattr(cpu, "is_cpu_platform", lambda: True)
    monkeypatch.setattr(cpu, "has_accelerator_vllm", lambda: False)
    cpu.register()
    assert manager._detect_platform_name() == "cpu"
