"""Puts together what this package adds to verl's workers, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """One thing that the policy's worker does beyond verl's.

    Attributes:
        outer: mixed in before `ActorRolloutRefWorker`, whose `init_model` it may extend.
        actor: trains the policy; a subclass of `TrainingWorker` that calls `super()`.
        reference: runs the reference; likewise.
        settings: class attributes; they travel to the workers with their class.
    """

    outer: type | None = None
    actor: type[TrainingWorker] | None = None
    reference: type[TrainingWorker] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def worker_class(
    base: type[ActorRolloutRefWorker], extensions: Sequence[Extension]
) -> type[ActorRolloutRefWorker]:
    """A subclass of `base` with all extensions; those named first see a call first."""
    attributes: dict[str, Any] = {}
    for extension in extensions:
        attributes |= extension.settings
    attributes["actor_worker_cls"] = composed([e.actor for e in extensions], base.actor_worker_cls)
    attributes["ref_worker_cls"] = composed([e.reference for e in extensions], base.ref_worker_cls)
    outer = [e.outer for e in extensions if e.outer is not None]
    return type(_name([*outer, base]), (*outer, base), attributes)


def composed(kinds: Sequence[type | None], base: type) -> type:
    """One class of all kinds and `base`, in this order; a single one as it is."""
    present = [kind for kind in kinds if kind is not None]
    if not any(issubclass(kind, base) for kind in present):
        present.append(base)
    return present[0] if len(present) == 1 else type(_name(present), tuple(present), {})


def _name(kinds: Sequence[type]) -> str:
    *first, last = (kind.__name__ for kind in kinds)
    return "".join([*(name.removesuffix("Mixin").removesuffix("Worker") for name in first), last])
