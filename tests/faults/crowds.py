"""Many sessions at a time, beside services that are late and fail now and then."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from docagent_rl.rollout.trajectory import MaskReason
from tests.crowd.play import Crowd
from tests.crowd.pulse import Pulse
from tests.crowd.service import AT_ONCE, ROLES, Service, overrides
from tests.crowd.world import make_world
from tests.faults.campaign import Campaign, Case
from tests.faults.verdict import Fault, Verdict, bad, right

FEW, MANY = 24, 256
LATE_S = 0.5
"""CPU seconds that the event loop's thread may work between two beats."""
_ALONE = 8
"""Sessions of a crowd that are played once more with nobody else."""


@dataclass(frozen=True)
class Variant:
    """What is played."""

    system: str
    recipe: str
    changes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ROLES


REMOTE = ("planner", "reader", "extractor")
VARIANTS = (
    Variant("vrag_rl", "vrag_rl_qwen2_5_vl_7b"),
    Variant("vrag_rl", "vrag_rl_qwen2_5_vl_7b", ("docagent.env.variant=released",)),
    Variant("unidoc_rl", "unidoc_rl_qwen2_5_vl_7b"),
    Variant("unidoc_rl", "unidoc_rl_qwen2_5_vl_7b", ("docagent.env.variant=released",)),
    Variant("mm_doc_r1", "mm_doc_r1_qwen3_8b"),
    Variant("mm_doc_r1", "mm_doc_r1_qwen3_8b", ("+ablations=mm_doc_r1/policy_answer",), REMOTE),
    Variant("alden", "alden_qwen2_5_vl_7b"),
    Variant("alden", "alden_qwen2_5_vl_7b", ("docagent.env.variant=released",)),
    Variant(
        "alden",
        "alden_hybrid_qwen2_5_vl_7b",
        ("++docagent.env.search.text_ranking=shared", "docagent.text_retriever=null"),
    ),
    Variant("doc_v_star", "doc_v_star_qwen2_5_vl_7b"),
)


def prepare(folder: Path) -> SimpleNamespace:
    """A world; masked sessions are expected and logged nowhere."""
    logging.getLogger("docagent_rl").setLevel(logging.CRITICAL)
    world = make_world(folder)
    gc.freeze()  # a full collection walks the objects of all libraries, for half a second
    return world


def attempt(world: SimpleNamespace, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """The first cases are small crowds, one a variant; those behind them have 256 sessions."""
    return [_attempt(world, case) for case in cases]


def _attempt(world: SimpleNamespace, case: Case) -> Verdict:
    variant = VARIANTS[case.number % len(VARIANTS)]
    number = FEW if case.number < len(VARIANTS) else MANY
    with Service(broken=0.05, shaky=0.05) as service:
        changes = [*overrides(variant.system, service.url, variant.roles), *variant.changes]
        crowd = Crowd(world, variant.recipe, changes, seed=case.random().randrange(1 << 30))
        return play(crowd, number, service, f"{variant.recipe} {' '.join(variant.changes)}")


def play(crowd: Crowd, number: int, service: Service, name: str) -> Verdict:
    """So many sessions together; some of them once more alone."""
    pulse = Pulse(late_s=LATE_S / 2)
    together = crowd.together(range(number), pulse)
    masked = [each for each in together if each.trajectory.masked]
    foreign = [each for each in masked if each.trajectory.end != MaskReason.INFRASTRUCTURE.value]
    if foreign:
        return bad(Fault.RAW, f"{name}: {foreign[0].trajectory.end}: {foreign[0].trajectory.error}")
    if len(together) != number or (masked and not service.failed):
        return bad(Fault.WRONG, f"{name}: {number} asked, {len(together)} ended, {len(masked)} masked")
    if (most := service.most_at_once()) > AT_ONCE:
        return bad(Fault.WRONG, f"{name}: {most} requests at once, more than {AT_ONCE}")
    if pulse.worst_cpu_s > LATE_S:
        where = "; ".join(f"{place} ({times})" for place, times in pulse.found.most_common(5))
        return bad(Fault.HANG, f"{name}: the event loop worked for {pulse.worst_cpu_s:.2f} s at {where}")
    for session in range(0, number, number // _ALONE):
        alone = crowd.alone(session)
        if (alone.record, alone.rows) != (together[session].record, together[session].rows):
            return bad(Fault.WRONG, f"{name}: session {session} is another one in company")
    return right(f"{name}: {number} sessions, {len(masked)} masked, beat {pulse.worst_cpu_s:.2f} s")


CAMPAIGN = Campaign(
    name="crowds",
    what="256 sessions at a time in one event loop, services late, 5 % of what they are asked failing",
    short=len(VARIANTS),
    long=3 * len(VARIANTS),
    prepare=prepare,
    attempt=attempt,
    seconds=180,
    memory_gib=4,
)
