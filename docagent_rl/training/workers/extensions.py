"""Puts together what this package adds to verl's workers, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """One addition to verl's worker of the policy.

    `outer` is mixed in before `ActorRolloutRefWorker`, whose `init_model` it may extend; `actor` and
    `reference` are subclasses of `TrainingWorker` that call `super()`; `settings` are class attributes,
    which travel with it.
    """

    outer: type | None = None
    actor: type[TrainingWorker] | None = None
    reference: type[TrainingWorker] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def worker_class(
    base: type[ActorRolloutRefWorker], extensions: Sequence[Extension]
) -> type[ActorRolloutRefWorker]:
    """Return a subclass of `base` with all extensions; those named first see a call first."""
    attributes: dict[str, Any] = {}
    for extension in extensions:
        attributes |= extension.settings
    attributes["actor_worker_cls"] = composed([e.actor for e in extensions], base.actor_worker_cls)
    attributes["ref_worker_cls"] = composed([e.reference for e in extensions], base.ref_worker_cls)
    outer = [e.outer for e in extensions if e.outer is not None]
    return type(_name([*outer, base]), (*outer, base), attributes)


def composed(kinds: Sequence[type | None], base: type) -> type:
    """Return one class of all kinds and `base`, in this order; a single one as it is."""
    present = [kind for kind in kinds if kind is not None]
    if not any(issubclass(kind, base) for kind in present):
        present.append(base)
    return present[0] if len(present) == 1 else type(_name(present), tuple(present), {})


def _name(kinds: Sequence[type]) -> str:
    *first, last = (kind.__name__ for kind in kinds)
    return "".join([*(name.removesuffix("Mixin").removesuffix("Worker") for name in first), last])
