"""Post-import hooks, and patches of upstream code that only apply to the versions they are written
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
    """The kinds of process that patches apply to, by how the patches get there.

    `DRIVER` is a process that a command starts: the first process of a run, and each process of
    supervised training. `RAY` are Ray's workers that import verl: the trainer, agent workers and
    rollout servers. In both, `import verl` loads the plugin. `ENGINE` is the core of a vLLM engine,
    which does not import verl; `vllm_plugin.register_vllm_plugin` installs its patches. `VLLM` are
    vLLM's workers, whose extension imports verl.
    """

    DRIVER = "driver"
    RAY = "Ray worker"
    ENGINE = "vLLM engine core"
    VLLM = "vLLM worker"


TRAINING = frozenset({ProcessKind.DRIVER, ProcessKind.RAY})
"""Processes that train, or produce data for training."""
SERVING = frozenset({ProcessKind.VLLM})
"""Processes that run the model of a rollout server."""


class PatchState(enum.Enum):
    """The state of a patch in a process."""

    APPLIED = "applied"
    WAITING = "waiting for import"
    VERSION_MISMATCH = "version mismatch"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True)
class Patch:
    """A change of upstream code.

    `apply` is called with `target_module`, and with each of `more_modules`, right after that module
    has been imported. It changes the module in place with `replace`, so that tests can still reach
    the original. A process may import any of these modules without the others, so `apply` may only
    change what is in the module that it receives.
    """

    name: str
    package: str
    """Distribution whose version is checked, such as `verl`."""
    versions: str
    """The versions that the patch is written for, as a PEP 440 specifier set."""
    reference: str
    """The upstream file and function (and issue, if there is one)."""
    reason: str
    """One sentence: what goes wrong without the patch."""
    target_module: str
    apply: ModuleCallback
    processes: frozenset[ProcessKind]
    """The processes that need it, which the doctor checks."""
    more_modules: tuple[str, ...] = ()
    """Further modules that need the same change, such as copies of the target."""
    needed: Callable[[], bool] | None = None
    """Returns whether this platform and environment have the defect; called once, on
    installation.
    """

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules that the patch changes."""
        return (self.target_module, *self.more_modules)


@dataclass(frozen=True)
class PatchStatus:
    """The state of a patch in this process, with a description."""

    name: str
    state: PatchState
    detail: str = ""
    waiting: tuple[str, ...] = ()
    """The modules that have not been imported yet."""


_statuses: dict[str, PatchStatus] = {}


class _Wrapper(Protocol):
    __wrapped__: object


def replace(owner: object, name: str, replacement: Callable) -> None:
    """Replace `owner.name`, and keep the original as `replacement.__wrapped__`."""
    cast("_Wrapper", replacement).__wrapped__ = getattr(owner, name)
    setattr(owner, name, replacement)


def install(patches: Iterable[Patch]) -> None:
    """Apply each patch now, or right after its module is imported; record those that do not apply.

    Installing a patch twice has no effect. An exception in `Patch.apply` is not caught: a run with
    half-patched code must stop.
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
    """Return the status of every patch passed to `install` in this process, in that order."""
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
        differs = version_mismatch(patch)
    except importlib.metadata.PackageNotFoundError:
        return PatchStatus(patch.name, PatchState.NOT_NEEDED, f"{patch.package} is not installed")
    return PatchStatus(patch.name, PatchState.VERSION_MISMATCH, differs) if differs else None


def version_mismatch(patch: Patch) -> str:
    """Return why a patch does not fit the installed version of its package; empty if it does.

    Raises:
        importlib.metadata.PackageNotFoundError: the package is not installed.
    """
    installed = importlib.metadata.version(patch.package)
    if SpecifierSet(patch.versions).contains(Version(installed), prereleases=True):
        return ""
    return f"written for {patch.package}{patch.versions}, but {installed} is installed"


def on_import(module_name: str, callback: ModuleCallback) -> None:
    """Call `callback(module)` as soon as `module_name` is imported, or now if it already is.

    Several callbacks for a module run in the order of their registration. An exception in a
    callback propagates out of the import statement, which then fails.

    Raises:
        RuntimeError: the module is being imported.
    """
    module = sys.modules.get(module_name)
    if module is not None and is_being_executed(module):
        raise RuntimeError(
            f"cannot hook {module_name}, because it is being imported: register the callback "
            "before or after that import"
        )
    register_post_import_hook(callback, module_name)


def is_being_executed(module: ModuleType) -> bool:
    """Return whether a module is being imported."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
