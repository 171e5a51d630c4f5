"""Post-import hooks, and patches of upstream code that apply only to the versions they were written
for.
"""

import enum
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Protocol, cast

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from wrapt import register_post_import_hook

logger = logging.getLogger(__name__)

ModuleCallback = Callable[[ModuleType], object]


class ProcessKind(enum.StrEnum):
    """The kinds of process in which patches hold, by the way that they come there.

    `DRIVER` is what a command starts: the first process of a run, and each of supervised training.
    `RAY` are Ray's workers that import verl: trainer, agent workers, rollout servers. Both have the
    plugin by `import verl`. `ENGINE` is the core of a vLLM engine, which imports no verl and has
    what `vllm_plugin.register_vllm_plugin` installs. `VLLM` are vLLM's workers, whose extension
    imports verl.
    """

    DRIVER = "driver"
    RAY = "Ray worker"
    ENGINE = "vLLM engine core"
    VLLM = "vLLM worker"


TRAINING = frozenset({ProcessKind.DRIVER, ProcessKind.RAY})
"""Processes that train, and that make data for it."""
SERVING = frozenset({ProcessKind.VLLM})
"""Processes with the model of a rollout server."""


class PatchState(enum.Enum):
    """States of a patch in a process."""

    APPLIED = "applied"
    WAITING = "waiting for import"
    VERSION_MISMATCH = "version mismatch"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True)
class Patch:
    """One change of upstream code.

    `apply` receives `target_module`, and each of `more_modules`, right after the import of that
    module, and changes it in place, with `replace`, so that tests can still reach the original. A
    process imports any of them without the others: what `apply` changes has to be in the module
    that it receives.
    """

    name: str
    package: str
    """Distribution whose version is checked, such as `verl`."""
    versions: str
    """The versions the patch was written for, as a PEP 440 specifier set."""
    reference: str
    """Upstream file and function (and issue, where there is one)."""
    reason: str
    """One sentence: what goes wrong without the patch."""
    target_module: str
    apply: ModuleCallback
    processes: frozenset[ProcessKind]
    """Where it has to hold; the doctor looks there."""
    more_modules: tuple[str, ...] = ()
    """Further modules that need the same change, such as copies of the target."""
    needed: Callable[[], bool] | None = None
    """Tells whether this platform and environment have the defect at all; asked once, at
    installation.
    """

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules that the patch changes."""
        return (self.target_module, *self.more_modules)


@dataclass(frozen=True)
class PatchStatus:
    """The state of one patch in this process, for people."""

    name: str
    state: PatchState
    detail: str = ""
    waiting: tuple[str, ...] = ()
    """The modules that have to be imported yet."""


_statuses: dict[str, PatchStatus] = {}


class _Wrapper(Protocol):
    __wrapped__: object


def replace(owner: object, name: str, replacement: Callable) -> None:
    """Put `replacement` in the place of `owner.name`, with the original as
    `replacement.__wrapped__`.
    """
    cast("_Wrapper", replacement).__wrapped__ = getattr(owner, name)
    setattr(owner, name, replacement)


def install(patches: Iterable[Patch]) -> None:
    """Apply each patch now, or right after the import of its module; skip and record those that do
    not fit.

    Installing a patch twice does nothing. An exception inside `Patch.apply` is not caught: a run on
    code that is patched by halves must stop.
    """
    for patch in patches:
        if patch.name in _statuses:
            continue
        obstacle = _obstacle(patch)
        if obstacle is not None:
            _statuses[patch.name] = obstacle
            if obstacle.state is PatchState.VERSION_MISMATCH:
                logger.warning("patch %s is not applied: %s", patch.name, obstacle.detail)
            continue
        _statuses[patch.name] = _status_of(patch, patch.modules)
        for module in patch.modules:
            on_import(module, partial(_apply, patch))


def patch_status() -> list[PatchStatus]:
    """Return the status of every patch handed to `install` in this process, in that order."""
    return list(_statuses.values())


def _apply(patch: Patch, module: ModuleType) -> None:
    patch.apply(module)
    waiting = _statuses[patch.name].waiting
    _statuses[patch.name] = _status_of(
        patch, tuple(name for name in waiting if name != module.__name__)
    )


def _status_of(patch: Patch, waiting: tuple[str, ...]) -> PatchStatus:
    state = PatchState.WAITING if waiting else PatchState.APPLIED
    return PatchStatus(patch.name, state, ", ".join(waiting or patch.modules), waiting)


def _obstacle(patch: Patch) -> PatchStatus | None:
    if patch.needed is not None and not patch.needed():
        return PatchStatus(
            patch.name, PatchState.NOT_NEEDED, "this environment does not have the defect"
        )
    try:
        installed = importlib.metadata.version(patch.package)
    except importlib.metadata.PackageNotFoundError:
        return PatchStatus(patch.name, PatchState.NOT_NEEDED, f"{patch.package} is not installed")
    if not SpecifierSet(patch.versions).contains(Version(installed), prereleases=True):
        detail = f"written for {patch.package}{patch.versions}, installed is {installed}"
        return PatchStatus(patch.name, PatchState.VERSION_MISMATCH, detail)
    return None


def on_import(module_name: str, callback: ModuleCallback) -> None:
    """Call `callback(module)` once `module_name` has been imported: now, if it already has been.

    Several callbacks for a module run in the order of their registration. An exception of a
    callback propagates out of the import statement, which then fails.

    Raises:
        RuntimeError: an import of the module has begun and not ended.
    """
    module = sys.modules.get(module_name)
    if module is not None and is_being_executed(module):
        raise RuntimeError(
            f"cannot hook {module_name}: its import has begun without a hook and has not ended; "
            "register the "
            "callback before that import or after it"
        )
    register_post_import_hook(callback, module_name)


def is_being_executed(module: ModuleType) -> bool:
    """Return whether a module's import has begun and not ended."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
