"""Whatever a judge or a role may answer, through whole sessions of every system."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from docagent_rl.rollout.trajectory import MaskReason
from tests.chat_server import RawServer
from tests.crowd.play import Crowd, Ended, keep_packages
from tests.crowd.service import Service, overrides
from tests.crowd.world import make_world
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.reply_kinds import KEY, KINDS, PASSWORD, Due, Kind, good, http
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_KEY_NAME = "DOCAGENT_FAULTS_KEY"
_SYSTEMS = {
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
}
_UNJUDGED = ("alden", "doc_v_star")
"""A broken judge must not touch them."""
_VICTIMS = (
    ("vrag_rl", "judge"),
    *(("mm_doc_r1", role) for role in ("planner", "reader", "answer", "extractor")),
    ("unidoc_rl", "judge"),
    *((system, "judge") for system in _UNJUDGED),
)
"""Who is served badly."""


class WildServer(RawServer):
    """Misbehaves when it is asked as one model, and answers well as the others."""

    kind: Kind = KINDS[0]
    victim = ""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            asked = json.loads(await reader.readexactly(int(length[1]))) if length else {}
            if asked.get("model") == self.victim:
                self.requests += 1
                async with asyncio.timeout(60):
                    await self._misbehave(writer, asked)
            else:
                writer.write(http(good(asked) if asked else b"{}"))
                await writer.drain()
        with suppress(ConnectionError, RuntimeError):
            writer.close()

    async def _misbehave(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        kind = self.kind
        if kind.reply is None:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return
        writer.write(kind.reply(asked) if callable(kind.reply) else kind.reply)
        await writer.drain()
        await asyncio.sleep(kind.wait_s)
        while kind.endless:
            writer.write(kind.endless)
            await writer.drain()
            await asyncio.sleep(kind.pause_s)


@dataclass
class Stand:
    """Sound and broken services, and what asks them."""

    world: SimpleNamespace
    sound: Service
    wild: WildServer
    heard: Heard
    crowds: dict[tuple[str, str, float], Crowd] = field(default_factory=dict)
    asking: dict[tuple[str, str], int] = field(default_factory=dict)

    def crowd(self, system: str, url: str, timeout_s: float = 60) -> Crowd:
        """The sessions of a system that asks at an address."""
        key = (system, url, timeout_s)
        if key not in self.crowds:
            patience = {"timeout_s": timeout_s, "deadline_s": 3 * timeout_s, "backoff_s": 0.01}
            changes = overrides(system, url, api_key_env=_KEY_NAME, attempts=2, **patience)
            # small caches: what grows beside them is a leak
            changes += ["docagent.rollout.session_attempts=1", "docagent.rollout.image_cache_mb=32"]
            self.crowds[key] = Crowd(self.world, _SYSTEMS[system], changes, late_s=0.0)
        return self.crowds[key]

    def session(self, system: str, victim: str) -> int:
        """The number of one in which the service is asked."""
        if system in _UNJUDGED:
            return 0
        if (system, victim) not in self.asking:
            for number in range(100):
                before = self.sound.by_model[victim]
                self.crowd(system, self.sound.url).alone(number)
                if self.sound.by_model[victim] > before:
                    self.asking[system, victim] = number
                    break
        return self.asking[system, victim]


class Heard(logging.Handler):
    """Everything that is logged, at any level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def prepare(folder: Path) -> Stand:
    keep_packages()
    os.environ[_KEY_NAME] = KEY
    heard = Heard()
    logging.getLogger().addHandler(heard)
    logging.getLogger().setLevel(logging.DEBUG)
    return Stand(make_world(folder), Service(late_s=0).__enter__(), WildServer().__enter__(), heard)


def attempt(stand: Stand, case: Case, folder: Path) -> Verdict:
    """A case is one kind of reply to one judge or role in one session."""
    rounds, position = divmod(case.number, len(KINDS))
    kind = KINDS[position]
    # neighbours are of different groups: each comes to all; as many rounds as victims bring all kinds to them
    system, victim = _VICTIMS[(position + position // len(_VICTIMS) + rounds) % len(_VICTIMS)]
    number, wild = stand.session(system, victim), stand.wild
    wild.kind, wild.victim, wild.requests = kind, victim, 0
    stand.heard.lines.clear()
    url = kind.url.format(port=re.search(r":(\d+)/", wild.url)[1])
    # what answers in the end is waited for on a busy machine too
    crowd = stand.crowd(system, url, timeout_s=3 if kind.due is Due.MASKED else 60)
    sound = stand.crowd(system, stand.sound.url)
    # another question each time: roles remember what they said
    crowd.remark = sound.remark = f"({case.seed}, {case.number})"
    ended = crowd.alone(number)
    name = f"{kind.name}, {system}, {victim}"
    told = [line for line in (*stand.heard.lines, str(ended.record)) if KEY in line or PASSWORD in line]
    if told:
        return bad(Fault.WRONG, f"{name}: the key is told: {told[0][:500]}")
    if ended.trajectory.end == MaskReason.FAILED.value:
        return bad(Fault.RAW, f"{name}: {ended.trajectory.error}")
    expected = sound.alone(number)
    return judged(lambda: _verdict(kind, system, name, ended, expected, wild.requests))


def _verdict(kind: Kind, system: str, name: str, ended: Ended, expected: Ended, asked: int) -> Verdict:
    t = ended.trajectory
    same = (ended.record, ended.rows) == (expected.record, expected.rows)
    if system in _UNJUDGED:
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
    short=16,
    long=len(_VICTIMS) * len(KINDS),
    prepare=prepare,
    attempt=one_by_one(attempt),
    seconds=600,
    memory_gib=6,
)
