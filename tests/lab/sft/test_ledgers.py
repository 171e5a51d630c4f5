"""Turns of a script; trajectories rebuilt from their record, in ids and in texts."""

import re

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.sft.exports import conversations
from docagent_rl.lab.sft.ledgers import replay
from docagent_rl.lab.sft.rows import sft_rows
from docagent_rl.lab.sft.trajectories import RowMaker, validation_selector
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits
from docagent_rl.rollout.trajectory import Status
from docagent_rl.samples.selection import SplitUnit
from docagent_rl.systems import SYSTEMS
from tests.examples.learning.small_task import LIMITS
from tests.lab.sft.recorded import about, copied, in_texts, masked
from tests.scripted import play_all
from trial import Setting


def stumble(trajectory):
    """Write a turn that fails, in one of two ways; a trajectory of such turns ends at its limit."""
    return "nothing" if len(trajectory.turns) != 1 else "<search>no such word"


def test_the_script_sees_what_its_turns_led_to_and_writes_their_encoding(task):
    seen = []

    def write(trajectory):
        seen.append([turn.info["effect"]["kind"] for turn in trajectory.turns])
        return "no action at all" if len(seen) == 1 else "<answer>7</answer>"

    trajectory, codec = task.play(write), task.resources.codec
    assert seen == [[], ["feedback"]]
    assert trajectory.trajectory.end == "answered"
    assert trajectory.trajectory.metrics["invalid_actions"] == 1
    (ledger,) = trajectory.ledgers
    for turn, sample in zip(ledger.turns, trajectory.trajectory.turns, strict=True):
        assert turn.token_ids == [
            *codec.tokenizer.encode(sample.text, add_special_tokens=False),
            codec.end_of_turn_id,
        ]
        assert sample.stop == "end_of_turn"


@pytest.mark.parametrize("text", ["", "<search>a</search><|im_end|>", "<|image_pad|>"])
def test_a_turn_that_no_policy_could_sample_is_refused(task, played, text):
    with pytest.raises(UserError, match=re.escape(repr(text))):
        task.play(lambda _: text)
    trajectory = in_texts(copied(played))
    trajectory.turns[0].text = text
    with pytest.raises(UserError, match=re.escape(repr(text))):
        replay(trajectory, task.resources.codec)


def test_a_turn_longer_than_a_policy_could_sample_is_refused(task):
    limits = Limits(prompt=LIMITS.prompt, response=LIMITS.response, turn=8, min_turn=4)
    with pytest.raises(UserError, match=r"\d+ .*\b8\b.*turn_tokens"):
        task.play(lambda _: "<search>" + "revenue " * 9 + "</search>", limits=limits)


def test_an_observation_that_was_dropped_stays_dropped(task):
    limits = Limits(prompt=LIMITS.prompt, response=24, turn=16, min_turn=8)
    trajectory = task.play(limits=limits)
    assert trajectory.trajectory.turns[-1].dropped
    (row,) = sft_rows(trajectory.trajectory, replay(copied(trajectory), task.resources.codec))
    assert row.images == ()
    assert row == sft_rows(trajectory.trajectory, trajectory.ledgers)[0]


def test_another_tokenisation_and_a_masked_trajectory_are_refused(task, played):
    trajectory = copied(played)
    trajectory.turns[0].observation_tokens += 1
    with pytest.raises(UserError, match=rf"{trajectory.uid}_0: .*\b1\b.*\d+.*\d+"):
        replay(trajectory, task.resources.codec)
    trajectory.status = Status.MASKED.value
    with pytest.raises(UserError, match=f"{trajectory.uid}_0"):
        replay(trajectory, task.resources.codec)


def test_a_text_that_was_cut_off_teaches_no_end_of_turn(task):
    played = task.play(stumble)
    trajectory = in_texts(copied(played))
    assert (
        replay(trajectory, task.resources.codec)[0].row().response_ids
        == played.ledgers[0].row().response_ids
    )
    trajectory.turns[-1].stop = "truncated"
    *ids, last = played.ledgers[0].row().response_ids
    assert last == task.resources.codec.end_of_turn_id
    assert replay(trajectory, task.resources.codec)[0].row().response_ids == ids


RECIPES = [
    *(f"{name}_qwen2_5_vl_7b" for name in SYSTEMS if name != "mm_doc_r1"),
    "mm_doc_r1_qwen3_8b",
]
WIDE = Limits(prompt=20_000, response=60_000, turn=2_000)


@pytest.mark.parametrize("recipe", RECIPES)
def test_rows_and_conversations_of_every_system_come_back_from_the_sample(recipe, world, processor):
    overrides = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.judge.kind=rule"]
    setting = Setting.of(composed_recipe(recipe, overrides))
    resources = TrajectoryResources(
        setting.config, processor.tokenizer, processor if "vl" in recipe else None
    )
    trajectories = play_all(
        resources, WIDE, [sample for sample in world.samples if sample.answers][:2]
    )
    maker = RowMaker(resources.codec, DocumentStore(world.root / "store"))
    for trajectory in trajectories:
        rows = sft_rows(trajectory.trajectory, trajectory.ledgers)
        assert maker.rows(copied(trajectory)) == rows
        assert maker.rows(in_texts(copied(trajectory))) == rows
        contexts = conversations(trajectory.trajectory)
        shown = [[image for turn in turns for image in turn.images] for turns in contexts]
        assert shown == [list(row.images) for row in rows]
        assert {turns[-1].role for turns in contexts} == {"assistant"}
        written = [turn for turns in contexts for turn in turns if turn.role == "assistant"]
        assert [turn.parts for turn in written] == [
            (turn.text,) for turn in trajectory.trajectory.turns
        ]


def test_masked_trajectories_choose_nothing(played):
    trajectories = [about(played.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    lost = masked(about(played.trajectory, "d.pdf", 0))
    validates = validation_selector([*trajectories, lost], 0.5, SplitUnit.DOCUMENT, 0)
    assert sum(map(validates, trajectories)) == 2
    assert not validates(about(played.trajectory, "d.pdf", 0))
    assert not any(validates(masked(each)) for each in trajectories)


def test_documents_that_a_question_ties_are_in_one_part(played):
    several = about(played.trajectory, "a.pdf", 0)
    several.sample["extra"] = {"page_ids": ["a.pdf#1", "b.pdf#1"]}
    apart = [about(played.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    for seed in range(8):
        validates = validation_selector([several, *apart], 0.5, SplitUnit.DOCUMENT, seed)
        first, second, other = map(validates, apart)
        assert first == second == validates(several)
        assert other is not first
