"""verl's classes of a configuration, without the rest of verl.

`import verl` takes ten seconds, because its packages import torch, Ray, transformers and vLLM. The
modules with the classes of its configuration, and its function that validates one, need little of
that. Here these modules are executed as they are, in packages that are otherwise empty.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

RANKS = "verl.workers.rollout.vllm_rollout.utils"
"""The module that compares a LoRA rank with vLLM's largest one."""
CERTAIN_RANK = 128
"""A LoRA rank that every vLLM accepts."""
PACKAGES = (
    *("", ".trainer", ".utils", ".utils.profiler", ".utils.qat", ".workers"),
    *(".workers.rollout", ".workers.rollout.vllm_rollout"),
)
"""Packages of verl whose own code is not executed."""
MODULES = (
    "verl.base_config",
    "verl.trainer.config",
    "verl.utils.config",
    "verl.utils.profiler.config",
    "verl.utils.qat.core",
    "verl.utils.torch_dtypes",
    "verl.utils.tracking",
    "verl.workers.config",
)
"""Modules of verl that are executed, with their submodules."""
NAMES = {
    ("verl.utils", "hf_processor"): "verl.utils.tokenizer",
    ("verl.utils", "hf_tokenizer"): "verl.utils.tokenizer",
    ("verl.utils.profiler", "ProfilerConfig"): "verl.utils.profiler.config",
    ("verl.utils.qat", "QATConfig"): "verl.utils.qat.core",
}
"""The modules that define what is imported from these packages."""
UTILITIES = ("fs", "import_utils", "model", "tokenizer")
FOR_A_RUN = ("transformers", *(f"verl.utils.{name}" for name in UTILITIES))
"""Modules whose functions the executed ones import for a run, and call in no check."""


class MoreNeededError(Exception):
    """A check needs more of verl than is here."""


def accepted(check: Callable[[], object]) -> bool:
    """Return whether a check passes that imports verl's classes when it is called.

    False does not mean that verl refuses: the check may need more of verl, and has to be run with
    all of it. Where verl has been imported, the result is always False.
    """
    if "verl" in sys.modules:
        return False
    try:
        with _classes():
            check()
    except Exception:  # whatever it is, the same check with all of verl reports it
        return False
    return True


def verls_module(name: str) -> Any:
    """Import one of `MODULES`, without the rest of verl if that has not been imported."""
    if "verl" in sys.modules:
        return import_module(name)
    with _classes():
        return import_module(name)


class _Package(ModuleType):
    """A package whose code is not executed."""

    def __getattr__(self, name: str) -> Any:
        if (module := NAMES.get((self.__name__, name))) is None:
            raise AttributeError(name)
        return getattr(import_module(module), name)


class _ForARun(ModuleType):
    """A module that is not executed; all functions exist, and raise an error."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _raise


def _raise(*_: object, **__: object) -> NoReturn:
    raise MoreNeededError


def _largest_rank(rank: int) -> int:
    if not 0 < rank <= CERTAIN_RANK:
        raise MoreNeededError
    return CERTAIN_RANK


class _Finder(MetaPathFinder):
    """Finds no module of verl but `MODULES`, and leaves those to Python."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.startswith("verl.") and not f"{fullname}.".startswith(
            tuple(f"{name}." for name in MODULES)
        ):
            raise MoreNeededError(fullname)


_loaded: dict[str, ModuleType] = {}
"""The modules of `_classes`, which are executed once."""


@contextmanager
def _classes() -> Generator[None]:
    """Let imports find verl's classes within this context, and afterwards verl itself."""
    if not _loaded:
        _loaded.update(_unexecuted())
    sys.modules.update(
        {name: module for name, module in _loaded.items() if name not in sys.modules}
    )
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "verl" or isinstance(module, _ForARun):
                _loaded[name] = sys.modules.pop(name)


def _unexecuted() -> dict[str, ModuleType]:
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise MoreNeededError
    folder = Path(spec.origin).parent
    found: dict[str, ModuleType] = {name: _ForARun(name) for name in (*FOR_A_RUN, RANKS)}
    vars(found[RANKS])["get_vllm_max_lora_rank"] = _largest_rank
    for name in PACKAGES:
        package = _Package(f"verl{name}")
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        found[package.__name__] = package
    return found
