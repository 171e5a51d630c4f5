from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.session import Limits
from tests.examples.learning.small_task import LIMITS, SmallTask


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


def test_the_script_sees_what_its_turns_led_to(task):
    seen = []

    def write(trajectory):
        seen.append([turn.info["effect"]["kind"] for turn in trajectory.turns])
        return "no action at all" if len(seen) == 1 else "<answer>7</answer>"

    session = task.play(write)
    assert seen == [[], ["feedback"]]
    assert session.trajectory.end == "answered"
    assert session.trajectory.metrics["invalid_actions"] == 1


def test_turns_are_the_encoding_of_their_text_and_the_end_of_turn(task):
    session = task.play()
    codec = task.resources.codec
    (ledger,) = session.ledgers
    assert len(ledger.turns) == 2
    for turn, record in zip(ledger.turns, session.trajectory.turns, strict=True):
        assert turn.token_ids[-1] == codec.end_of_turn_id
        assert turn.token_ids[:-1] == codec.tokenizer.encode(record.text, add_special_tokens=False)
        assert record.stop == "end_of_turn"


@pytest.mark.parametrize("text", ["", "<search>a</search><|im_end|>", "<|image_pad|>"])
def test_a_turn_that_no_policy_could_sample_is_refused(task, text):
    with pytest.raises(UserError):
        task.play(lambda _: text)


def test_a_turn_longer_than_a_policy_could_sample_is_refused(task):
    limits = Limits(prompt=LIMITS.prompt, response=LIMITS.response, turn=8, min_turn=4)
    with pytest.raises(UserError, match=r"\d+ .*\b8\b"):
        task.play(lambda _: "<search>" + "revenue " * 9 + "</search>", limits=limits)
