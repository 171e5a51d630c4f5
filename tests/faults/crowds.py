"""Many sessions at a time, beside services that are late and fail now and then."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil

from docagent_rl.rollout.trajectory import MaskReason
from tests.crowd.play import Crowd, keep_packages
from tests.crowd.pulse import Pulse
from tests.crowd.service import AT_ONCE, ROLES, Service, overrides
from tests.crowd.world import make_world
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.verdict import Fault, Verdict, bad, right

_FEW, _MANY = 6, 256
_LATE_S = 0.5
"""CPU seconds that the event loop's thread may work between two beats, among many sessions."""
_RELEASED = "docagent.env.variant=released"
_SHARED = ("++docagent.env.search.text_ranking=shared", "docagent.text_retriever=null")
VARIANTS = (
    ("vrag_rl_qwen2_5_vl_7b",),
    ("unidoc_rl_qwen2_5_vl_7b",),
    ("mm_doc_r1_qwen3_8b",),
    ("alden_qwen2_5_vl_7b",),
    ("doc_v_star_qwen2_5_vl_7b",),
    ("mm_doc_r1_qwen3_8b", "+ablations=mm_doc_r1/policy_answer"),
    ("alden_hybrid_qwen2_5_vl_7b", *_SHARED),
    ("vrag_rl_qwen2_5_vl_7b", _RELEASED),
    ("unidoc_rl_qwen2_5_vl_7b", _RELEASED),
    ("alden_qwen2_5_vl_7b", _RELEASED),
)
"""Recipes and changes of them."""


def prepare(folder: Path) -> SimpleNamespace:
    """A world; masked sessions are expected and logged nowhere."""
    keep_packages()
    logging.getLogger("docagent_rl").setLevel(logging.CRITICAL)
    world = make_world(folder)
    gc.freeze()  # a full collection walks the objects of all libraries, for half a second
    return world


def attempt(world: SimpleNamespace, case: Case, folder: Path) -> Verdict:
    """Small crowds, one a variant, and behind them large ones."""
    recipe, *changes = case.kind(VARIANTS)
    many = case.number >= len(VARIANTS)
    policy_answers = any("policy_answer" in change for change in changes)
    roles = tuple(role for role in ROLES if role != "answer" or not policy_answers)
    with Service(broken=0.05, shaky=0.05) as service:
        changes = [*overrides(recipe.partition("_qwen")[0], service.url, roles), *changes]
        crowd = Crowd(world, recipe, changes, seed=case.random().randrange(1 << 30))
        return play(crowd, _MANY if many else _FEW, service, " ".join((recipe, *changes[-1:])))


def play(crowd: Crowd, number: int, service: Service, name: str) -> Verdict:
    """So many sessions together; some of them once more alone."""
    pulse = Pulse()
    together = crowd.together(range(number), pulse)
    masked = [each.trajectory for each in together if each.trajectory.masked]
    if foreign := [each for each in masked if each.end != MaskReason.INFRASTRUCTURE.value]:
        return bad(Fault.RAW, f"{name}: {foreign[0].end}: {foreign[0].error}")
    if len(together) != number or (masked and not service.failed):
        return bad(Fault.WRONG, f"{name}: {number} asked, {len(together)} ended, {len(masked)} masked")
    if (most := service.most_at_once()) > AT_ONCE:
        return bad(Fault.WRONG, f"{name}: {most} requests at once, more than {AT_ONCE}")
    if number == _MANY and pulse.worst_cpu_s > _LATE_S:
        return bad(Fault.HANG, f"{name}: the event loop worked for {pulse.worst_cpu_s:.2f} s")
    held = _held()
    for session in range(0, number, max(4, number // 8)):
        alone = crowd.alone(session)
        if (alone.record, alone.rows) != (together[session].record, together[session].rows):
            return bad(Fault.WRONG, f"{name}: session {session} is another one in company")
    if any(now > before + 8 for now, before in zip(_held(), held, strict=True)):
        return bad(Fault.LEFTOVER, f"{name}: descriptors and threads were {held}, are {_held()}")
    return right(f"{name}: {number} sessions, {len(masked)} masked, beat {pulse.worst_cpu_s:.2f} s")


def _held() -> tuple[int, int]:
    """Descriptors and threads."""
    gc.collect()
    return psutil.Process().num_fds(), threading.active_count()


CAMPAIGN = Campaign(
    name="crowds",
    what="256 sessions at a time in one event loop, services late, 5 % of what they are asked failing",
    short=6,
    long=3 * len(VARIANTS),
    prepare=prepare,
    attempt=one_by_one(attempt),
    seconds=1800,
    memory_gib=6,
)
