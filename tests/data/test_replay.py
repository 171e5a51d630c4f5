from __future__ import annotations

import asyncio
import json

import pytest

from docagent_rl.data.replay import replay
from docagent_rl.data.sft import sft_rows
from docagent_rl.errors import UserError
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Status, Trajectory
from tests.learning.plates import LIMITS, Plates


@pytest.fixture(scope="module")
def plates(tmp_path_factory, processor):
    return Plates(tmp_path_factory.mktemp("plates"), processor)


def recorded(session):
    return Trajectory.from_dict(json.loads(session.trajectory.to_json()))


def again(trajectory, plates):
    return asyncio.run(replay(trajectory, plates.shop.codec, plates.shop.encoder))


def stumble(trajectory):
    """Two turns that fail, so that the session ends at its limit."""
    return "nothing" if len(trajectory.turns) != 1 else "<search>no such word"


@pytest.mark.parametrize("write", [None, stumble])
def test_a_recorded_session_gives_the_rows_that_were_played(plates, write):
    session = plates.play(write) if write else plates.play()
    trajectory = recorded(session)
    ledgers = again(trajectory, plates)
    assert sft_rows(trajectory, ledgers) == sft_rows(session.trajectory, session.ledgers)
    assert ledgers[0].row().response_mask == session.ledgers[0].row().response_mask


def test_an_observation_that_was_dropped_stays_dropped(plates):
    limits = Limits(prompt=LIMITS.prompt, response=24, turn=16, min_turn=8)
    session = plates.play(limits=limits)
    trajectory = recorded(session)
    assert trajectory.turns[-1].dropped
    (row,) = sft_rows(trajectory, again(trajectory, plates))
    assert row.images == ()
    assert row == sft_rows(session.trajectory, session.ledgers)[0]


def test_another_tokenisation_is_noticed(plates):
    trajectory = recorded(plates.play())
    trajectory.turns[0].observation_tokens += 1
    with pytest.raises(UserError, match=r"observation 1 has \d+ tokens, \d+ were recorded"):
        again(trajectory, plates)


def test_a_masked_session_has_no_rows(plates):
    trajectory = recorded(plates.play())
    trajectory.status = Status.MASKED.value
    with pytest.raises(UserError, match="was masked"):
        again(trajectory, plates)
