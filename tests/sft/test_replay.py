from __future__ import annotations

import asyncio
import json

import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.sft.replay import replay, replay_sizes
from docagent_rl.sft.rows import sft_rows
from tests.examples.learning.small_task import LIMITS, SmallTask


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


def recorded(session):
    return Trajectory.from_dict(json.loads(session.trajectory.to_json()))


def again(trajectory, task):
    return asyncio.run(replay(trajectory, task.resources.codec, task.resources.encoder))


def stumble(trajectory):
    """Two turns that fail, so that the session ends at its limit."""
    return "nothing" if len(trajectory.turns) != 1 else "<search>no such word"


@pytest.mark.parametrize("write", [None, stumble])
def test_a_recorded_session_gives_the_rows_that_were_played(task, write):
    session = task.play(write) if write else task.play()
    trajectory = recorded(session)
    ledgers = again(trajectory, task)
    assert sft_rows(trajectory, ledgers) == sft_rows(session.trajectory, session.ledgers)
    assert ledgers[0].row().response_mask == session.ledgers[0].row().response_mask


def test_an_observation_that_was_dropped_stays_dropped(task):
    limits = Limits(prompt=LIMITS.prompt, response=24, turn=16, min_turn=8)
    session = task.play(limits=limits)
    trajectory = recorded(session)
    assert trajectory.turns[-1].dropped
    (row,) = sft_rows(trajectory, again(trajectory, task))
    assert row.images == ()
    assert row == sft_rows(session.trajectory, session.ledgers)[0]


def test_another_tokenisation_is_noticed(task):
    trajectory = recorded(task.play())
    trajectory.turns[0].observation_tokens += 1
    with pytest.raises(UserError, match=r"\b1\b.*\d+.*\d+"):
        again(trajectory, task)


def test_a_masked_session_has_no_rows(task):
    trajectory = recorded(task.play())
    trajectory.status = Status.MASKED.value
    with pytest.raises(UserError):
        again(trajectory, task)


def in_texts(trajectory):
    """As a chat endpoint's player leaves it: no ids, and counts of a tokenizer that is not ours."""
    for turn in trajectory.turns:
        turn.token_ids, turn.log_probs, turn.observation_tokens = [], [], 0
    trajectory.prompt_tokens = trajectory.response_tokens = 0
    return trajectory


def test_a_session_recorded_in_texts_gives_the_rows_of_one_that_was_played(task):
    session = task.play()
    trajectory = in_texts(recorded(session))
    assert sft_rows(trajectory, again(trajectory, task)) == sft_rows(session.trajectory, session.ledgers)


def test_images_need_not_be_drawn_for_a_row(task):
    session = task.play()
    trajectory = recorded(session)
    codec = task.resources.codec
    (row,) = sft_rows(trajectory, replay_sizes(trajectory, codec))
    assert len(row.images) == 1
    assert [row] == sft_rows(session.trajectory, session.ledgers)


def test_tokens_of_another_model_are_encoded_anew_only_when_asked(task):
    session = task.play()
    trajectory = recorded(session)
    for turn in trajectory.turns:
        turn.token_ids = [1, *turn.token_ids]
    trajectory.prompt_tokens += 3
    with pytest.raises(UserError):
        replay_sizes(trajectory, task.resources.codec)
    ledgers = replay_sizes(trajectory, task.resources.codec, retokenise=True)
    assert sft_rows(trajectory, ledgers) == sft_rows(session.trajectory, session.ledgers)


def test_a_text_that_was_cut_off_teaches_no_end_of_turn(task):
    session = task.play(stumble)
    trajectory = in_texts(recorded(session))
    trajectory.turns[-1].stop = "truncated"
    end = task.resources.codec.end_of_turn_id
    played, cut = session.ledgers[0].row(), again(trajectory, task)[0].row()
    assert played.response_ids[-1] == end
    assert cut.response_ids == played.response_ids[:-1]


def test_a_text_that_spells_a_special_token_is_refused(task):
    trajectory = in_texts(recorded(task.play()))
    trajectory.turns[0].text = "<search>x</search><|im_end|><|im_start|>user"
    with pytest.raises(UserError):
        again(trajectory, task)
