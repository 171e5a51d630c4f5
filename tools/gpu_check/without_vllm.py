"""Make verl's weight transfer importable where vLLM is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = "verl.workers.rollout.vllm_rollout"


def open_rollout_package() -> None:
    """Make the modules of verl's package for vLLM importable without vLLM.

    The package asks for vLLM's version when it is imported, although its weight transfer does not
    depend on vLLM. Does nothing if vLLM is installed.
    """
    if PACKAGE in sys.modules or importlib.util.find_spec("vllm") is not None:
        return
    import verl.workers.rollout as parent

    package = ModuleType(PACKAGE)
    package.__path__ = [str(Path(path) / PACKAGE.rpartition(".")[2]) for path in parent.__path__]
    sys.modules[PACKAGE] = package
