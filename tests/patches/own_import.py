"""Program: report what the patches change in each of their modules, imported alone and with all
others.

Each import happens in a fork of a process that has imported verl, for verl's modules also the
libraries that they import, and vLLM before modules that need it. Prints one JSON object: by module,
the names that are ours when it was imported alone, and when all were.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import verl  # noqa: F401  (loads the plugin)

from docagent_rl.patches import ALL_PATCHES
from docagent_rl.training.patching import PatchState, patch_status

OURS = "docagent_rl."
LIBRARIES = (
    *("ray", "tensordict", "transfer_queue", "datasets", "hydra", "peft", "pandas"),
    *("torch.distributed.fsdp", "transformers.modeling_utils", "transformers.generation"),
)
"""What verl's modules spend most of their import on."""
NEED_VLLM = ("vllm", "verl.workers.rollout.vllm_rollout", "verl.utils.vllm")


def changed(module: ModuleType) -> list[str]:
    """Return the names of our functions in a module, in its tables and in the classes that it
    defines.
    """
    found = [name for name, value in vars(module).items() if _is_ours(value)]
    for name, value in vars(module).items():
        parts: dict[Any, Any] = value if type(value) is dict else {}
        if isinstance(value, type) and value.__module__ == module.__name__:
            parts = dict(vars(value))
        found += [f"{name}.{key}" for key, each in parts.items() if _is_ours(each)]
    return sorted(found)


def _is_ours(value: Any) -> bool:
    plain = getattr(value, "__func__", value)
    return isinstance(plain, FunctionType) and plain.__globals__["__name__"].startswith(OURS)


def in_a_fork(ask: Callable[[], Any]) -> Any:
    """Return the answer of a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with os.fdopen(writer, "w") as answer:
            json.dump(ask(), answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


def alone(name: str) -> list[str]:
    return changed(importlib.import_module(name))


def together(names: Iterable[str]) -> dict[str, list[str]]:
    modules = [importlib.import_module(name) for name in names]
    return {module.__name__: changed(module) for module in modules}


def main() -> None:
    """Report all modules of patches that this environment needs."""
    waiting = {each.name for each in patch_status() if each.state is not PatchState.NOT_NEEDED}
    names = sorted(
        {module for patch in ALL_PATCHES if patch.name in waiting for module in patch.modules}
    )
    found: dict[str, Any] = {}

    def look_at(chosen: Iterable[str]) -> None:
        for name in chosen:
            if name not in found:
                found[name] = in_a_fork(lambda name=name: alone(name))

    look_at(name for name in names if not name.startswith(("verl.", "vllm")))
    before = set(sys.modules)
    for library in LIBRARIES:
        importlib.import_module(library)
    brought = set(names) & (set(sys.modules) - before)
    assert not [name for name in brought if name.startswith(("verl.", "vllm"))], brought
    look_at(name for name in names if not name.startswith(NEED_VLLM))
    importlib.import_module("vllm")
    look_at(names)
    print("REPORT " + json.dumps({"alone": found, "together": in_a_fork(lambda: together(names))}))


if __name__ == "__main__":
    sys.exit(main())
