"""Turns of a script, and sessions built again from their record.

That rows of all systems come back from the record, in ids and in texts, is in `test_sessions.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Status
from docagent_rl.sft.replay import replay, replay_sizes
from docagent_rl.sft.rows import sft_rows
from tests.examples.learning.small_task import LIMITS
from tests.sft.recorded import copied, in_texts


def again(trajectory, task):
    return asyncio.run(replay(trajectory, task.resources.codec, task.resources.encoder))


def stumble(trajectory):
    """Two turns that fail, so that the session ends at its limit."""
    return "nothing" if len(trajectory.turns) != 1 else "<search>no such word"


def test_the_script_sees_what_its_turns_led_to_and_writes_their_encoding(task):
    seen = []

    def write(trajectory):
        seen.append([turn.info["effect"]["kind"] for turn in trajectory.turns])
        return "no action at all" if len(seen) == 1 else "<answer>7</answer>"

    session, codec = task.play(write), task.resources.codec
    assert seen == [[], ["feedback"]]
    assert session.trajectory.end == "answered"
    assert session.trajectory.metrics["invalid_actions"] == 1
    (ledger,) = session.ledgers
    for turn, record in zip(ledger.turns, session.trajectory.turns, strict=True):
        assert turn.token_ids == [
            *codec.tokenizer.encode(record.text, add_special_tokens=False),
            codec.end_of_turn_id,
        ]
        assert record.stop == "end_of_turn"


@pytest.mark.parametrize("text", ["", "<search>a</search><|im_end|>", "<|image_pad|>"])
def test_a_turn_that_no_policy_could_sample_is_refused(task, played, text):
    with pytest.raises(UserError):
        task.play(lambda _: text)
    trajectory = in_texts(copied(played))
    trajectory.turns[0].text = text
    with pytest.raises(UserError):
        again(trajectory, task)


def test_a_turn_longer_than_a_policy_could_sample_is_refused(task):
    limits = Limits(prompt=LIMITS.prompt, response=LIMITS.response, turn=8, min_turn=4)
    with pytest.raises(UserError, match=r"\d+ .*\b8\b"):
        task.play(lambda _: "<search>" + "revenue " * 9 + "</search>", limits=limits)


def test_a_recorded_session_gives_the_ledgers_that_were_played(task, played):
    (row,) = sft_rows(copied(played), again(copied(played), task))
    assert [row] == sft_rows(played.trajectory, played.ledgers)
    assert len(row.images) == 1


def test_an_observation_that_was_dropped_stays_dropped(task):
    limits = Limits(prompt=LIMITS.prompt, response=24, turn=16, min_turn=8)
    session = task.play(limits=limits)
    assert session.trajectory.turns[-1].dropped
    (row,) = sft_rows(session.trajectory, again(copied(session), task))
    assert row.images == ()
    assert row == sft_rows(session.trajectory, session.ledgers)[0]


def test_another_tokenisation_and_a_masked_session_are_refused(task, played):
    trajectory = copied(played)
    trajectory.turns[0].observation_tokens += 1
    with pytest.raises(UserError, match=r"\b1\b.*\d+.*\d+"):
        again(trajectory, task)
    trajectory.status = Status.MASKED.value
    with pytest.raises(UserError, match=f"{trajectory.uid}_0"):
        again(trajectory, task)


def test_tokens_of_another_model_are_encoded_anew_only_when_asked(task, played):
    trajectory = copied(played)
    for turn in trajectory.turns:
        turn.token_ids = [1, *turn.token_ids]
    trajectory.prompt_tokens += 3
    with pytest.raises(UserError, match=f"{trajectory.uid}_0"):
        replay_sizes(trajectory, task.resources.codec)
    ledgers = replay_sizes(trajectory, task.resources.codec, retokenise=True)
    assert sft_rows(trajectory, ledgers) == sft_rows(played.trajectory, played.ledgers)


def test_a_text_that_was_cut_off_teaches_no_end_of_turn(task):
    session = task.play(stumble)
    trajectory = in_texts(copied(session))
    assert again(trajectory, task)[0].row().response_ids == session.ledgers[0].row().response_ids
    trajectory.turns[-1].stop = "truncated"
    *ids, last = session.ledgers[0].row().response_ids
    assert last == task.resources.codec.end_of_turn_id
    assert again(trajectory, task)[0].row().response_ids == ids
