import asyncio
import math
import re

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import Observation, TextPart
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.ledger import NO_TURN
from docagent_rl.rollout.rollout import Limits, token_range
from docagent_rl.rollout.trajectory import Status
from docagent_rl.training.trainer.inputs import TermRewards
from tests.rollout.stage import Rewarding, search


async def test_a_trajectory_from_search_to_answer(stage):
    answer = stage.sample.answers[0]
    crop = "<bbox>[10, 10, 120, 120]</bbox>"
    rollout = stage.rollout([search(stage.sample.question), crop, f"<answer>{answer}</answer>"])
    (ledger,) = await rollout.play(stage.sample)
    trajectory, row = rollout.trajectory, ledger.row()
    assert (trajectory.status, trajectory.end) == (Status.FINISHED.value, "answered")
    assert [t.stop for t in trajectory.turns] == ["end_of_turn"] * 3
    assert len(row.images) == 2
    assert row.response_ids.count(stage.codec.image_token_id) == sum(
        i.num_tokens for i in row.images
    )
    assert trajectory.metrics["reward/outcome"] == 1.0
    assert (
        trajectory.reward == pytest.approx(sum(row.rewards)) == trajectory.metrics["reward/total"]
    )
    assert row.rewards[-1] == trajectory.reward  # the last sampled token, which ends the row
    assert row.turn_index[-1] == 2
    assert trajectory.image_preprocessings == 2


async def test_what_the_server_sees_is_what_is_trained(stage):
    rollout = stage.rollout([search("report"), search("table"), "<answer>x</answer>"])
    (ledger,) = await rollout.play(stage.sample)
    row, script = ledger.row(), rollout.generate
    whole = row.prompt_ids + row.response_ids
    for context in script.contexts:
        assert whole[: len(context)] == context
    assert [len(images) for images in script.images] == [0, 1, 2]


async def test_a_template_that_counts_images_counts_on(stage):
    stage.codec = ChatCodec(stage.processor.tokenizer, stage.processor, (("add_vision_id", True),))
    rollout = stage.rollout([search("report"), search("table"), "<answer>x</answer>"])
    (ledger,) = await rollout.play(stage.sample)
    text = stage.processor.tokenizer.decode(ledger.row().response_ids)
    assert re.findall(r"Picture (\d+): ", text) == ["1", "2"]


async def test_searches_are_kept_with_their_hits_and_counted(stage):
    lines = [search("report table"), "nothing", search("report table"), "<answer>x</answer>"]
    rollout = stage.rollout(lines)
    await rollout.play(stage.sample)
    turns = rollout.trajectory.turns
    assert [len(turn.searches) for turn in turns] == [1, 0, 1, 0]
    again = stage.rollout([search("report table"), "<answer>x</answer>"])
    await again.play(stage.sample)
    # a page opened again is not preprocessed again
    assert rollout.trajectory.image_preprocessings > 0
    assert again.trajectory.image_preprocessings == 0
    first, second = turns[0].searches[0], turns[2].searches[0]
    shown = [page["page"] for page in turns[0].info["effect"]["pages"]]
    assert [page for page, _ in first["hits"]][: len(shown)] == shown
    assert (first["retriever"], first["query"], first["tries"]) == ("retriever", "report table", 1)
    metrics = rollout.trajectory.metrics
    assert (metrics["retriever/searches"], metrics["retriever/novelty"]) == (2.0, 0.5)
    assert set(rollout.trajectory.search_s) == {"retriever"}
    assert rollout.trajectory.search_s["retriever"] == [first["seconds"], second["seconds"]]


async def test_an_observation_that_does_not_fit_is_dropped_and_its_page_was_never_shown(stage):
    turn = len(stage.codec.tokenizer.encode(search("report"), add_special_tokens=False)) + 1
    limits = Limits(prompt=2000, response=turn + 10, turn=200, min_turn=4)
    rollout = stage.rollout([search("report")], limits=limits)
    (ledger,) = await rollout.play(stage.sample)
    trajectory = rollout.trajectory
    assert (trajectory.end, trajectory.status) == ("context_full", Status.UNFINISHED.value)
    assert (trajectory.turns[0].dropped, trajectory.turns[0].observation_tokens) == (True, 0)
    assert trajectory.metrics["pages_seen"] == trajectory.metrics["reward/retrieval_ndcg"] == 0
    assert ledger.row().images == ()
    assert NO_TURN not in ledger.row().turn_index


async def test_caps_follow_the_room(stage):
    rollout = stage.rollout(
        ["<answer>x</answer>"], limits=Limits(prompt=2000, response=7, turn=200)
    )
    await rollout.play(stage.sample)
    assert rollout.generate.caps == [7]
    assert rollout.trajectory.turns[0].stop == "truncated"


async def test_a_sampled_control_id_is_dropped_and_the_turn_invalid(stage):
    start = stage.codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    ids = [*stage.codec.tokenizer.encode("<search>table</search>", add_special_tokens=False), start]
    rollout = stage.rollout([ids, "<answer>x</answer>"])
    (ledger,) = await rollout.play(stage.sample)
    first = rollout.trajectory.turns[0]
    assert first.stop == "control_token"
    assert start not in first.token_ids
    assert rollout.trajectory.metrics["invalid_actions"] == 1
    ended = [*first.token_ids, stage.codec.end_of_turn_id]
    assert ledger.row().response_ids[: len(ended)] == ended


async def test_a_prompt_that_is_too_long_names_the_question(stage):
    rollout = stage.rollout(["x"], limits=Limits(prompt=5, response=100, turn=10))
    with pytest.raises(UserError, match=stage.sample.question_id):
        await rollout.play(stage.sample)


async def test_fresh_contexts_become_rows_of_their_own(stage):
    rollout = stage.rollout(["a word here", "another word there", "the last word"])
    rollout.env = Rewarding([(True, 1.0, 0.0, 1.0)] * 3)
    ledgers = await rollout.play(stage.sample)
    rows = [ledger.row() for ledger in ledgers]
    assert len(rows) == 3
    assert all(set(row.response_mask) == {1} for row in rows)
    assert [stage.codec.decode(row.response_ids) for row in rows] == rollout.env.seen
    assert [turn.row for turn in rollout.trajectory.turns] == [0, 1, 2]
    assert rollout.trajectory.status == Status.FINISHED.value
    assert [row.prompt_ids for row in rows] == [
        stage.codec.prompt_ids(Observation.user(TextPart(text)))
        for text in ("begin", "go on", "go on")
    ]


async def test_token_terms_land_on_the_tokens_of_their_span(stage):
    rollout = stage.rollout(["first a word and more"])
    rollout.env = Rewarding([(False, 1.0, -0.5, 1.0)])
    (ledger,) = await rollout.play(stage.sample)
    row = ledger.row()
    hit = [n for n, r in enumerate(row.rewards[:-1]) if r]
    assert "wor" in stage.codec.decode([row.response_ids[n] for n in hit])
    assert sum(row.rewards[:-1]) == pytest.approx(-0.5)
    assert row.rewards[-1] == 1.0
    assert rollout.trajectory.reward == pytest.approx(0.5)
    assert rollout.trajectory.turns[0].terms == {"penalty": -0.5, "bonus": 0.5}


async def test_a_fresh_context_that_is_too_long_ends_the_trajectory(stage):
    begin = stage.codec.prompt_ids(Observation.user(TextPart("s")))
    rollout = stage.rollout(
        ["a word here"], limits=Limits(prompt=len(begin), response=100, turn=20)
    )
    rollout.env = Rewarding([(True, 1.0, 0.0, 1.0)] * 2)
    rollout.env.show_prompt = lambda state: Observation.user(TextPart("s"))
    ledgers = await rollout.play(stage.sample)
    assert len(ledgers) == 1
    assert rollout.trajectory.end == "context_full"


def played(stage, said, plan):
    """Play these turns, where an empty text stands for a single control token; return the
    trajectory and its rows.
    """
    control = stage.codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    rollout = stage.rollout([text or [control] for text in said])
    rollout.env = Rewarding(plan)
    ledgers = asyncio.run(rollout.play(stage.sample))
    # verl first: its agent loops register ours when they are imported
    import verl.experimental.agent_loop  # noqa: F401

    from docagent_rl.training.agent_loop.output import training_rows

    return rollout, training_rows(ledgers, rollout.trajectory, log_probs=True, steps=(0, 0))


PLANS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([None, "so be it", "a few more words"]),
        st.sampled_from([-1.0, 0.0, 0.5, 2.0]),
        st.sampled_from([0.0, 0.0, 0.25, 1.0]),
        st.sampled_from([-1.0, -0.3, 0.0]),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(turns=PLANS)
# a reward outlives a last context of a control token alone
@example(turns=[(True, "so be it", 0.0, 0.0, 0.0), (False, None, 2.0, 0.0, 0.0)])
def test_what_a_trajectory_is_paid_stands_on_its_tokens(stage, turns):
    said = [text for _, text, *_ in turns]
    rollout, rows = played(stage, said, [(fresh, *reward) for fresh, _, *reward in turns])
    trajectory, sampled = rollout.trajectory, any(said)
    on_tokens = math.fsum(value for row in rows for value in row.token_rewards)
    assert trajectory.reward == pytest.approx(on_tokens, abs=1e-9)
    assert trajectory.reward == pytest.approx(
        math.fsum(rollout.env.rewards) if sampled else 0.0, abs=1e-9
    )
    for row in rows:
        outside = [
            r for mask, r in zip(row.response_mask, row.token_rewards, strict=True) if not mask
        ]
        assert not any(outside)
    if not sampled:
        return
    assert trajectory.reward == pytest.approx(
        math.fsum(turn.reward for turn in trajectory.turns), abs=1e-9
    )
    width = max(len(row.turn_index) for row in rows)
    index = torch.tensor(
        [row.turn_index + [NO_TURN] * (width - len(row.turn_index)) for row in rows]
    )
    terms = TermRewards([trajectory] * len(rows), torch.arange(len(rows)), index)
    # every term is there before the weights, on sampled tokens
    wanted = {
        "bonus": [reward / 2 for *_, reward, _, _ in turns],
        "penalty": [value for *_, value, _ in turns],
    }
    for name, values in wanted.items():
        assert float(terms[name].sum()) == pytest.approx(math.fsum(values), abs=1e-5)
        assert not terms[name][index == NO_TURN].any()


def pieces(processor, text):
    tokenizer = processor.tokenizer
    return tokenizer.encode(text, add_special_tokens=False), lambda ids: tokenizer.decode(list(ids))


def test_empty_and_outside_spans(processor):
    ids, decode = pieces(processor, "abc")
    assert token_range(decode, ids, (1, 1)) is None
    assert token_range(decode, ids, (5, 9)) is None
    assert token_range(decode, ids, (0, 99)) == (0, len(ids))


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("ab <>/é漢字😀1"), min_size=1, max_size=40),
    data=st.data(),
)
def test_every_character_of_the_span_is_carried(processor, text, data):
    ids, decode = pieces(processor, text)
    decoded = decode(ids)
    start = data.draw(st.integers(0, len(decoded) - 1))
    end = data.draw(st.integers(start + 1, len(decoded)))
    first, last = token_range(decode, ids, (start, end))
    assert 0 <= first < last <= len(ids)
    before = decode(ids[:first]).rstrip("\ufffd")
    through = decode(ids[:last])
    assert len(before) <= start
    assert through.rstrip("\ufffd")[:end] == decoded[:end]
    # no token too many: without the first or the last one, a character of the span is missing
    assert len(decode(ids[: first + 1]).rstrip("\ufffd")) > start
    assert len(decode(ids[: last - 1]).rstrip("\ufffd")) < end
