"""Post-import hooks, and patches of upstream code that apply only to the versions they were written for."""

from __future__ import annotations

import enum
import importlib.abc
import importlib.metadata
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Protocol, cast

from packaging.specifiers import SpecifierSet
from packaging.version import Version

logger = logging.getLogger(__name__)

ModuleCallback = Callable[[ModuleType], object]


class AppliesTo(enum.Enum):
    """The platforms a patch is meant for."""

    EVERYWHERE = "everywhere"
    CPU_ONLY = "cpu only"


class PatchState(enum.Enum):
    """States of a patch in a process."""

    APPLIED = "applied"
    WAITING = "waiting for import"
    VERSION_MISMATCH = "version mismatch"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True)
class Patch:
    """One change of upstream code.

    `apply` receives `target_module` right after its import and changes it in place, with `replace`, so that
    tests can still reach the original.
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
    applies_to: AppliesTo = AppliesTo.EVERYWHERE
    needed: Callable[[], bool] | None = None
    """Tells whether this environment has the defect at all; asked once, at installation."""


@dataclass(frozen=True)
class PatchStatus:
    """The state of one patch in this process, for people."""

    name: str
    state: PatchState
    detail: str = ""


_statuses: dict[str, PatchStatus] = {}


class _Wrapper(Protocol):
    __wrapped__: object


def replace(owner: object, name: str, replacement: Callable) -> None:
    """Put `replacement` in the place of `owner.name`, with the original as `replacement.__wrapped__`."""
    cast("_Wrapper", replacement).__wrapped__ = getattr(owner, name)
    setattr(owner, name, replacement)


def install(patches: Iterable[Patch]) -> None:
    """Apply each patch now, or right after the import of its module; skip and record those that do not fit.

    Installing a patch twice does nothing. An exception inside `Patch.apply` is not caught: a run on code
    that is patched by halves must stop.
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
        _statuses[patch.name] = PatchStatus(patch.name, PatchState.WAITING, patch.target_module)
        on_import(patch.target_module, partial(_apply, patch))


def patch_status() -> list[PatchStatus]:
    """Return the status of every patch handed to `install` in this process, in that order."""
    return list(_statuses.values())


def _apply(patch: Patch, module: ModuleType) -> None:
    patch.apply(module)
    _statuses[patch.name] = PatchStatus(patch.name, PatchState.APPLIED, patch.target_module)


def _obstacle(patch: Patch) -> PatchStatus | None:
    from docagent_rl.training.hardware import is_cpu_platform

    if patch.applies_to is AppliesTo.CPU_ONLY and not is_cpu_platform():
        return PatchStatus(patch.name, PatchState.NOT_NEEDED, "the platform is not cpu")
    try:
        installed = importlib.metadata.version(patch.package)
    except importlib.metadata.PackageNotFoundError:
        return PatchStatus(patch.name, PatchState.NOT_NEEDED, f"{patch.package} is not installed")
    if not SpecifierSet(patch.versions).contains(Version(installed), prereleases=True):
        detail = f"written for {patch.package}{patch.versions}, installed is {installed}"
        return PatchStatus(patch.name, PatchState.VERSION_MISMATCH, detail)
    if patch.needed is not None and not patch.needed():
        return PatchStatus(patch.name, PatchState.NOT_NEEDED, "this environment does not have the defect")
    return None


def on_import(module_name: str, callback: ModuleCallback) -> None:
    """Call `callback(module)` once `module_name` has been imported: now, if it already has been.

    Several callbacks for a module run in the order of their registration. They run again when the module is
    executed again (`importlib.reload`, or an import after its removal from `sys.modules`). An exception of
    a callback propagates out of the import statement, which then fails.

    Raises:
        RuntimeError: if an import of the module began before the first hook and has not ended, so that
            there is no moment left at which the callback could run.
        ImportError: on import, if the module's loader cannot be hooked (built-in and frozen modules).
    """
    _finder.add(module_name, callback)


def is_being_executed(module: ModuleType) -> bool:
    """Return whether a module's import has begun and not ended."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _HookFinder(importlib.abc.MetaPathFinder):
    """A finder that hooks the execution of modules somebody waits for; others find them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._callbacks: dict[str, list[ModuleCallback]] = {}
        self._executing: set[str] = set()
        self._executed: set[str] = set()
        self._searching = threading.local()

    def add(self, name: str, callback: ModuleCallback) -> None:
        with self._lock:
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
            module = sys.modules.get(name)
            started = module is not None and is_being_executed(module)
            # between the last callback and the end of the import the module counts as imported
            if started and name not in self._executing and name not in self._executed:
                raise RuntimeError(
                    f"cannot hook {name}: its import has begun without a hook and has not ended; "
                    "register the callback before that import or after it"
                )
            self._callbacks.setdefault(name, []).append(callback)
            if module is None or name in self._executing:
                return
        callback(module)

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._callbacks:
            return None
        searching: set[str] = self._searching.__dict__.setdefault("names", set())
        if fullname in searching:  # another finder looks the module up through us
            return None
        searching.add(fullname)
        try:
            others = (
                getattr(finder, "find_spec", None) for finder in list(sys.meta_path) if finder is not self
            )
            found = (find(fullname, path, target) for find in others if find is not None)
            spec = next((each for each in found if each is not None), None)
        finally:
            searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            self._hook(spec.loader, fullname)
        return spec

    def _hook(self, loader: importlib.abc.Loader, name: str) -> None:
        if isinstance(loader, type) or not hasattr(loader, "__dict__"):
            raise ImportError(
                f"cannot hook {name}: its loader {loader!r} is shared by other modules", name=name
            )
        execute = loader.exec_module

        # The method of this one instance is replaced, not the loader: `module.__loader__` stays what tools
        # such as inspect and importlib.resources expect.
        def exec_module(module: ModuleType) -> None:
            with self._lock:
                self._executing.add(name)
                self._executed.discard(name)
            try:
                execute(module)
                self._run_callbacks(name, module)
            finally:
                with self._lock:
                    self._executing.discard(name)

        loader.exec_module = exec_module

    def _run_callbacks(self, name: str, module: ModuleType) -> None:
        done = 0
        while True:
            with self._lock:
                callbacks = self._callbacks[name]
                if done == len(callbacks):
                    self._executing.discard(name)
                    self._executed.add(name)
                    return
                callback = callbacks[done]
            done += 1
            callback(sys.modules.get(name, module))  # a module may put another object in its place


_finder = _HookFinder()
