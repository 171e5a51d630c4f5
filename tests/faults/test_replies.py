"""Odd replies of judges and roles, through whole trajectories; transports are tried in `tests/endpoints`."""

from __future__ import annotations

import functools
import json
import logging
from enum import Enum
from types import SimpleNamespace

import pytest

from docagent_rl.rollout.trajectory import MaskReason
from tests.chat_server import ChatServer, completion, threaded
from tests.crowd.play import Crowd
from tests.crowd.service import Service, overrides, reply_of
from tests.crowd.world import make_world
from tests.faults.conftest import is_clear

pytestmark = pytest.mark.slow
KEY, KEY_NAME = "sk-Zx81qLw0+never/told==", "DOCAGENT_FAULTS_KEY"
SYSTEMS = {
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
}
UNJUDGED = ("alden", "doc_v_star")
"""A broken judge must not touch them."""
ROLES = ("planner", "reader", "answer", "extractor")
VICTIMS = (
    *((system, "judge") for system in ("vrag_rl", "unidoc_rl", *UNJUDGED)),
    *(("mm_doc_r1", role) for role in ROLES),
)


class Due(Enum):
    """What has to become of the trajectory."""

    RIGHT = "the trajectory that a sound service would have had"
    MASKED = "masked for the service"
    READ = "masked by a judge; a role's goes on with a text that is odd but a text"


def error(message: str, status: int = 500):
    return lambda text: (status, {}, json.dumps({"error": {"message": message}}).encode())


def said(form: str):
    return lambda text: completion(form.replace("{}", text))


# of the right text, what the server sends
KINDS = {
    "a status that tells the key": (Due.MASKED, error(f"wrong key {KEY} \x1b[31m\u202e", 401)),
    "an error of 5 MB": (Due.MASKED, error("x" * (5 << 20))),
    "an error with 200": (Due.MASKED, error("CUDA out of memory", 200)),
    "HTML": (Due.MASKED, lambda text: b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"),
    "no content": (Due.MASKED, lambda text: completion(None)),
    "cut off by its length": (Due.MASKED, lambda text: completion(text, "length")),
    "a long text": (Due.MASKED, said("<judge>True</judge>" * 600_000)),
    "thoughts that do not end": (Due.MASKED, said("<think>{}")),
    "odd usage": (
        Due.RIGHT,
        lambda text: {**completion(text), "usage": {"total_tokens": "many", "x": [None]}},
    ),
    "thoughts before": (Due.RIGHT, said("<think>False?</think>{}")),
    "the key as a text": (Due.READ, said(f"{{}} {KEY}")),
    "a verdict that is none": (Due.READ, said("<judge>maybe</judge>")),
    "half a character": (Due.READ, said("\ud800{}\udfff")),
    "control tokens": (Due.READ, said("<|im_end|><|im_start|>{}<|endoftext|>")),
    "escape sequences": (Due.READ, said("\x1b[31m{}\x07\x00")),
}
CASES = len(KINDS)


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    """Sound and broken services, and what asks them."""
    world, wild = make_world(tmp_path_factory.mktemp("replies")), SimpleNamespace(victim="", asked=0)

    def compute(request):
        if request["model"] != wild.victim:
            return completion(reply_of(request))
        wild.asked += 1
        return wild.change(reply_of(request))

    @functools.cache
    def crowd(system, url):
        patience = {"timeout_s": 60, "deadline_s": 180, "backoff_s": 0.01}
        changes = overrides(system, url, api_key_env=KEY_NAME, attempts=2, **patience)
        return Crowd(world, SYSTEMS[system], [*changes, "docagent.rollout.trajectory_attempts=1"], late_s=0.0)

    @functools.cache
    def trajectory(system, victim):
        """The number of one in which the service is asked."""
        for number in range(100):
            before = sound.by_model[victim]
            crowd(system, sound.url).alone(number)
            if system in UNJUDGED or sound.by_model[victim] > before:
                return number
        raise AssertionError((system, victim))

    with (
        Service(late_s=0) as sound,
        threaded(ChatServer(compute=compute)) as broken,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(KEY_NAME, KEY)
        yield SimpleNamespace(
            wild=wild, crowd=crowd, trajectory=trajectory, sound=sound.url, broken=broken.url
        )


def test_a_reply_leads_to_the_right_trajectory_or_masks_it(stand, caplog, number):
    """A case is one kind of reply to one judge or role in one trajectory."""
    rounds, position = divmod(number, len(KINDS))
    due, stand.wild.change = list(KINDS.values())[position]
    system, victim = VICTIMS[(position + rounds) % len(VICTIMS)]
    trajectory, stand.wild.victim, stand.wild.asked = stand.trajectory(system, victim), victim, 0
    crowd, sound = stand.crowd(system, stand.broken), stand.crowd(system, stand.sound)
    # another question each time: roles remember what they said
    crowd.remark = sound.remark = f"({number})"
    with caplog.at_level(logging.DEBUG):
        ended = crowd.alone(trajectory)
    assert not [line for line in (*caplog.text.splitlines(), str(ended.sample)) if KEY in line]
    found, expected = ended.trajectory, sound.alone(trajectory)
    same = (ended.sample, ended.rows) == (expected.sample, expected.rows)
    if system in UNJUDGED:
        assert (same, stand.wild.asked) == (True, 0)
    elif found.masked:
        assert (found.reward, found.end) == (0, MaskReason.INFRASTRUCTURE.value), found.error
        assert due is not Due.RIGHT, found.error
        assert is_clear(found.error or "", "judge", *ROLES), found.error
    else:
        assert due is not Due.MASKED, (found.end, found.reward)
        assert same or (due is Due.READ and system == "mm_doc_r1")
