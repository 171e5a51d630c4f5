"""Whatever a judge or a role may answer, through whole sessions of every system."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.rollout.trajectory import MaskReason
from tests.crowd.play import Crowd, Ended
from tests.crowd.service import Service, overrides
from tests.crowd.world import make_world
from tests.faults.campaign import Campaign, Case
from tests.faults.reply_kinds import KEY, KINDS, Due, Kind
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right
from tests.faults.wild_server import WildServer

_KEY_NAME = "DOCAGENT_FAULTS_KEY"
_PATIENCE = {"api_key_env": _KEY_NAME, "timeout_s": 3, "deadline_s": 9, "attempts": 2, "backoff_s": 0.01}
_SLOW_S = 45.0
SYSTEMS = {
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
}
VICTIMS = {
    "vrag_rl": ("judge",),
    "unidoc_rl": ("judge",),
    "mm_doc_r1": ("planner", "reader", "answer", "extractor"),
    "alden": ("judge",),
    "doc_v_star": ("judge",),
}
"""Who is served badly; nobody judges the last two, whom a broken judge must not touch."""


@dataclass
class Stand:
    """Sound and broken services, and what asks them.

    Attributes:
        asking: numbers of sessions in which the service is asked, by system and role.
    """

    world: Any
    sound: Service
    wild: WildServer
    heard: Heard
    crowds: dict[tuple[str, str], Crowd]
    asking: dict[tuple[str, str], list[int]]

    def crowd(self, system: str, url: str) -> Crowd:
        """The sessions of a system that asks at an address."""
        if (system, url) not in self.crowds:
            changes = overrides(system, url, **_PATIENCE)
            # small caches: what grows beside them is a leak
            changes += ["docagent.rollout.session_attempts=1", "docagent.rollout.image_cache_mb=32"]
            self.crowds[system, url] = Crowd(self.world, SYSTEMS[system], changes, late_s=0.0)
        return self.crowds[system, url]


class Heard(logging.Handler):
    """Everything that is logged, at any level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def prepare(folder: Path) -> Stand:
    """A world, both services, and sessions in which each judge and role is asked."""
    os.environ[_KEY_NAME] = KEY
    heard = Heard()
    logging.getLogger().addHandler(heard)
    logging.getLogger().setLevel(logging.DEBUG)
    stand = Stand(make_world(folder), Service(late_s=0).__enter__(), WildServer().start(), heard, {}, {})
    for system, victims in VICTIMS.items():
        crowd = stand.crowd(system, stand.sound.url)
        for victim in victims:
            stand.asking[system, victim] = []
        for number in range(24):
            before = dict(stand.sound.by_model)
            crowd.alone(number)
            for victim in victims:
                if stand.sound.by_model[victim] > before.get(victim, 0) or system in ("alden", "doc_v_star"):
                    stand.asking[system, victim].append(number)
    return stand


def attempt(stand: Stand, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """A case is one kind of reply to one judge or role in one session."""
    return [_attempt(stand, case) for case in cases]


def _attempt(stand: Stand, case: Case) -> Verdict:
    rounds, position = divmod(case.number, len(KINDS))
    kind = KINDS[position]
    # eight rounds bring every kind to everybody
    system, victim = sorted(stand.asking)[(position + rounds) % len(stand.asking)]
    number = case.random().choice(stand.asking[system, victim])
    wild, heard = stand.wild, stand.heard
    wild.talk, wild.victim, wild.asked = kind.talk, victim, 0
    heard.lines.clear()
    crowd = stand.crowd(system, kind.url.format(port=wild.port))
    # another question each time: roles remember what they said
    crowd.remark = stand.crowd(system, stand.sound.url).remark = f"({case.seed}, {case.number})"
    began = time.monotonic()
    ended = asyncio.run(crowd.ended(number))
    took = time.monotonic() - began
    name = f"{kind.name}, {system}, {victim}"
    told = [line for line in (*heard.lines, str(ended.record)) if _secret(line)]
    if told:
        return bad(Fault.WRONG, f"{name}: the key is told: {told[0][:500]}")
    if took > _SLOW_S:
        return bad(Fault.HANG, f"{name}: {took:.0f} s")
    if ended.trajectory.end == MaskReason.FAILED.value:
        return bad(Fault.RAW, f"{name}: {ended.trajectory.error}")
    expected = stand.crowd(system, stand.sound.url).alone(number)
    return judged(lambda: _verdict(kind, system, name, ended, expected, wild.asked))


def _secret(text: str) -> bool:
    return KEY in text or "hunter2" in text


def _verdict(kind: Kind, system: str, name: str, ended: Ended, expected: Ended, asked: int) -> Verdict:
    t = ended.trajectory
    same = (ended.record, ended.rows) == (expected.record, expected.rows)
    if system in ("alden", "doc_v_star"):
        return right(name) if same and not asked else bad(Fault.WRONG, f"{name}: a judge was asked")
    reads = kind.due is Due.READ and (system == "mm_doc_r1" or same)
    if t.masked:
        if t.reward or t.end != MaskReason.INFRASTRUCTURE.value:
            return bad(Fault.WRONG, f"{name}: reward {t.reward}, {t.end}: {t.error}")
        if kind.due is Due.RIGHT:
            return bad(Fault.WRONG, f"{name}: masked, though the reply is right: {t.error}")
        return refused(t.error or "", "judge", "planner", "reader", "answer", "extractor")
    if (same and kind.due in (Due.RIGHT, Due.EITHER)) or reads:
        return right(name)
    return bad(Fault.WRONG, f"{name}: {t.end}, reward {t.reward} where {expected.trajectory.reward} is due")


CAMPAIGN = Campaign(
    name="replies",
    what=f"{len(KINDS)} kinds of replies of judges and roles: bodies, fields, texts, transports, statuses",
    short=24,
    long=8 * len(KINDS),
    prepare=prepare,
    attempt=attempt,
    seconds=90,
)
