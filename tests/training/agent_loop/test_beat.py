"""Trajectories share an event loop, and nothing that takes long blocks it."""

import pytest

from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.recorder import Recorder
from docagent_rl.rollout.resources import TrajectoryResources
from tests.crowd.play import Crowd
from tests.crowd.pulse import Pulse
from tests.crowd.world import make_world

_PATIENCE_S = 60
"""Time for the event loop to answer; a blocked one never does, one on a busy machine is late."""
_RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def crowd(tmp_path):
    return Crowd(make_world(tmp_path), _RECIPE)


@pytest.fixture
def watched(monkeypatch):
    """Return a function that records, for each call of a function, whether the event loop answered
    during the call.
    """

    def watch(pulse, owner, name):
        found, original = [], getattr(owner, name)

        def asking(*args, **kwargs):
            found.append(pulse.answers(_PATIENCE_S))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, asking)
        return found

    return watch


@pytest.mark.slow
def test_others_go_on_while_stores_open_prompts_become_tokens_and_trajectories_end(watched, crowd):
    pulse = Pulse()
    opened = watched(pulse, TrajectoryResources, "__init__")
    encoded = watched(pulse, ChatCodec, "prompt_ids")
    closed = watched(pulse, Recorder, "close")
    assert not any(each.trajectory.masked for each in crowd.together(range(2), pulse))
    assert opened == [True]
    assert encoded == [True, True]
    assert closed == [True, True]


async def test_others_go_on_while_an_answer_is_judged(watched):
    async with Pulse() as pulse:
        judged = watched(pulse, RuleJudge, "_judge")
        assert await RuleJudge().judge("How many people?", ["1,204"], "1204 people") == 1
    assert judged == [True]
