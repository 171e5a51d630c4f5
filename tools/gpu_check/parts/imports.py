"""Check versions, the plugin, the patches, and the attention implementation."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import torch

from docagent_rl.training.patching import PatchState
from tools.gpu_check.attention import packed_attention
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.report import versions
from tools.gpu_check.without_vllm import open_rollout_package

BAD = (PatchState.VERSION_MISMATCH.value, PatchState.WAITING.value)
OPTIONAL_TARGETS = ("vllm", "verl.workers.rollout.vllm_rollout")
"""Packages that a machine may lack in this check; their patches then wait for an import that never
happens.
"""


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    import verl  # noqa: F401

    expect(
        "docagent_rl.training.plugin" in sys.modules,
        "verl did not load the plugin: install docagent-rl",
    )
    _import_training()
    from verl.plugin.platform import get_platform
    from verl.workers.engine import EngineRegistry

    from docagent_rl.training.patching import patch_status

    device = get_platform().device_name
    expect(
        device == machine.device, f"verl computes on {device}, but the machine has {machine.device}"
    )
    for kind in ("language_model", "value_model"):
        devices = EngineRegistry._engines.get(kind, {}).get("fsdp2", {})
        there = any(key == device or key[0] == device for key in devices)
        expect(there, f"there is no FSDP2 engine of a {kind} for {device}")
    states = {status.name: status for status in patch_status()}
    expect(bool(states), "no patch is installed")
    wrong = [
        f"{name}: {status.state.value} ({status.detail})"
        for name, status in states.items()
        if status.state.value in BAD
        and not (status.detail.startswith(OPTIONAL_TARGETS) and not machine.vllm)
    ]
    expect(not wrong, f"patches: {'; '.join(wrong)}")
    function, way = packed_attention()
    expect(
        function is not None,
        f"verl's forward pass of Qwen2.5-VL has no attention over packed rows ({way})",
    )
    applied = sum(status.state is PatchState.APPLIED for status in states.values())
    numbers = {
        "versions": versions(),
        "patches": {name: status.state.value for name, status in states.items()},
        "attention": way,
        "machine": asdict(machine),
    }
    if machine.gpu is not None:
        numbers["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        numbers["cuda"] = torch.version.cuda
    return passed(
        f"plugin loaded, {applied} of {len(states)} patches applied, attention by {way}", **numbers
    )


def _import_training() -> None:
    """Import the modules that patches wait for, if they are installed.

    Those of Ray and vLLM may be missing.
    """
    import importlib

    from docagent_rl.training.patching import patch_status

    open_rollout_package()
    for status in patch_status():
        for module in status.waiting:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                print(f"{status.name}: {error}")
