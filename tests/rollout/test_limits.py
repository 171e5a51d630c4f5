"""Prompts, observations and turns at the exact limits of a row."""

import time

import pytest

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import Message, Observation, Role, TextPart
from docagent_rl.rollout.ledger import NO_TURN
from docagent_rl.rollout.rollout import Limits, Sampled, split_stop, token_range
from tests.rollout.stage import Rewarding, search

SAID = "so be it"
MIN_TURN = 5


def turn_length(stage, text):
    """Return the number of tokens of a turn, including its end."""
    return len(stage.codec.tokenizer.encode(text, add_special_tokens=False)) + 1


def go_on(stage):
    """Return the tokens of the observation after a turn that ended."""
    message = Message(Role.USER, (TextPart("go on"),))
    return stage.codec.observation_ids(Observation((message,)), closed=True)


@pytest.mark.parametrize("spare", [0, -1, 1])
async def test_an_observation_fits_that_leaves_just_the_shortest_turn(stage, spare):
    length = turn_length(stage, SAID)
    limits = Limits(
        prompt=2000,
        response=length + len(go_on(stage)) + MIN_TURN + spare,
        turn=200,
        min_turn=MIN_TURN,
    )
    rollout = stage.rollout([SAID, "one two three four five six seven"], limits=limits)
    rollout.env = Rewarding([(False, 1.0, 0.0, 1.0)] * 2)
    (ledger,) = await rollout.play(stage.sample)
    first = rollout.trajectory.turns[0]
    fits = spare >= 0
    assert (first.dropped, first.observation_tokens) == (not fits, len(go_on(stage)) if fits else 0)
    assert rollout.generate.caps[1:] == ([MIN_TURN + spare] if fits else [])
    assert rollout.trajectory.end == ("finished" if fits else "context_full")
    row = ledger.row()
    observed = [
        token
        for token, index in zip(row.response_ids, row.turn_index, strict=True)
        if index == NO_TURN
    ]
    assert observed == (go_on(stage) if fits else [])
    # the turn that is cut by the limit fills the row to its last token
    assert len(row.response_ids) == (limits.response if fits else length)
    assert ledger.room == (0 if fits else limits.response - length)


@pytest.mark.parametrize("spare", [0, -1])
async def test_an_observation_with_an_image_fits_to_the_token(stage, spare):
    wide = stage.rollout([search("report"), "<answer>x</answer>"])
    await wide.play(stage.sample)
    shown = wide.trajectory.turns[0].observation_tokens
    assert shown > 16  # an image is among them
    response = turn_length(stage, search("report")) + shown + MIN_TURN + spare
    limits = Limits(prompt=2000, response=response, turn=200, min_turn=MIN_TURN)
    drawn = []
    rollout = stage.rollout([search("report"), "<answer>x</answer>"], limits=limits)
    rollout.encoder = Counting(rollout.encoder, drawn)
    (ledger,) = await rollout.play(stage.sample)
    first = rollout.trajectory.turns[0]
    assert (first.observation_tokens, first.dropped) == (
        (shown, False) if spare == 0 else (0, True)
    )
    assert len(ledger.images) == len(drawn) == (1 if spare == 0 else 0)
    # of a dropped observation nothing is drawn, and nothing is left
    placeholders = ledger.token_ids.count(stage.codec.image_token_id)
    assert placeholders == sum(image.num_tokens for image in ledger.images)


class Counting:
    """An encoder that records its calls."""

    def __init__(self, encoder, asked):
        self.encoder = encoder
        self.asked = asked

    async def encode(self, refs):
        self.asked.extend(refs)
        return await self.encoder.encode(refs)


@pytest.mark.parametrize("spare", [0, -1])
async def test_a_prompt_may_be_as_long_as_its_limit(stage, spare):
    length = len(stage.codec.prompt_ids(Observation.user(TextPart("begin"))))
    rollout = stage.rollout([SAID], limits=Limits(prompt=length + spare, response=100, turn=20))
    rollout.env = Rewarding([(False, 1.0, 0.0, 1.0)])
    if spare < 0:
        with pytest.raises(UserError, match=rf"data\.max_prompt_length={length - 1} tokens"):
            await rollout.play(stage.sample)
        return
    (ledger,) = await rollout.play(stage.sample)
    assert rollout.trajectory.prompt_tokens == ledger.prompt_length == length


@pytest.mark.parametrize("spare", [0, -1])
async def test_a_new_context_may_be_as_long_as_a_prompt(stage, spare):
    shown = "go on with this longer text"
    length = len(stage.codec.prompt_ids(Observation.user(TextPart(shown))))
    rollout = stage.rollout(
        [SAID, SAID], limits=Limits(prompt=length + spare, response=100, turn=20)
    )
    rollout.env = Rewarding([(True, 1.0, 0.0, 1.0)] * 2, shown=shown)
    ledgers = await rollout.play(stage.sample)
    first = rollout.trajectory.turns[0]
    assert len(ledgers) == (2 if spare == 0 else 1)
    assert (first.observation_tokens, first.dropped) == (
        (length, False) if spare == 0 else (0, True)
    )
    assert rollout.trajectory.end == ("finished" if spare == 0 else "context_full")


@pytest.mark.parametrize(("turn", "response", "caps"), [(3, 100, 3), (100, 3, 3), (4, 4, 4)])
async def test_a_turn_is_cut_at_the_smaller_of_both_limits(stage, turn, response, caps):
    rollout = stage.rollout(
        ["one two three four five six"], limits=Limits(prompt=2000, response=response, turn=turn)
    )
    rollout.env = Rewarding([(False, 1.0, 0.0, 1.0)])
    (ledger,) = await rollout.play(stage.sample)
    assert rollout.generate.caps == [caps]
    assert ledger.response_length == rollout.trajectory.response_tokens == caps
    assert rollout.trajectory.turns[0].stop == "truncated"


async def test_the_tokens_of_a_trajectory_are_those_of_all_its_contexts(stage):
    rollout = stage.rollout([SAID, "a few more words"])
    rollout.env = Rewarding([(True, 1.0, 0.0, 1.0)] * 2)
    began = time.perf_counter()
    ledgers = await rollout.play(stage.sample)
    elapsed = time.perf_counter() - began
    begin = len(stage.codec.prompt_ids(Observation.user(TextPart("begin"))))
    assert rollout.trajectory.prompt_tokens == begin
    assert rollout.trajectory.response_tokens == sum(
        len(ledger.row().response_ids) for ledger in ledgers
    )
    first, last = rollout.trajectory.turns
    assert (first.seconds.keys(), last.seconds.keys()) == (
        {"generate", "step", "encode"},
        {"generate", "step"},
    )
    assert sum([*first.seconds.values(), *last.seconds.values()]) <= elapsed
    assert min([*first.seconds.values(), *last.seconds.values()]) >= 0


async def test_a_turn_that_was_cut_is_closed_by_the_observation(stage):
    """The policy's own end of the turn is never repeated, and a missing one is written."""
    limits = Limits(prompt=2000, response=200, turn=3)
    rollout = stage.rollout(["one two three four five", "so"], limits=limits)
    rollout.env = Rewarding([(False, 1.0, 0.0, 1.0)] * 2)
    (ledger,) = await rollout.play(stage.sample)
    (cut, ended) = ledger.turns
    assert len(cut.token_ids) == 3
    assert cut.observation_ids == [stage.codec.end_of_turn_id, *go_on(stage)]
    assert ended.token_ids[-1] == stage.codec.end_of_turn_id


async def test_images_without_an_encoder_are_an_error(stage):
    rollout = stage.rollout([search("report"), "<answer>x</answer>"])
    rollout.encoder = None
    with pytest.raises(UserError, match="no image processor"):
        await rollout.play(stage.sample)


END, OTHER_CONTROL = 90, 91
CONTROLS = frozenset({91, 92})


@pytest.mark.parametrize(
    ("sampled", "kept", "cause"),
    [
        ([], [], StopCause.TRUNCATED),
        ([END], [END], StopCause.END_OF_TURN),
        ([1, 2, END], [1, 2, END], StopCause.END_OF_TURN),
        ([1, 2], [1, 2], StopCause.TRUNCATED),
        # an end in the middle is no end
        ([1, END, 2], [1, END, 2], StopCause.TRUNCATED),
        ([OTHER_CONTROL], [], StopCause.CONTROL_TOKEN),
        ([1, 92, 2, 91], [1], StopCause.CONTROL_TOKEN),
        ([1, END, 91], [1, END], StopCause.CONTROL_TOKEN),
        ([1, 91, END], [1], StopCause.CONTROL_TOKEN),
    ],
)
def test_sampled_ids_are_kept_up_to_the_first_control_id(sampled, kept, cause):
    log_probs = [-0.5 * number for number, _ in enumerate(sampled)]
    found = split_stop(Sampled(sampled, log_probs), END, CONTROLS)
    assert found == (kept, log_probs[: len(kept)], cause)
    assert split_stop(Sampled(sampled), END, CONTROLS) == (kept, [], cause)


TOKENS = ("ab", "c", "", "def")
"""Texts of four tokens, of which one is a special token: it has no text."""


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 6), (0, 4)),
        ((0, 1), (0, 1)),
        ((1, 2), (0, 1)),
        ((0, 2), (0, 1)),
        ((2, 3), (1, 2)),
        ((1, 3), (0, 2)),
        ((3, 4), (3, 4)),
        ((5, 6), (3, 4)),
        ((2, 4), (1, 4)),
        # what lies outside of the text is left out
        ((-3, 1), (0, 1)),
        ((5, 9), (3, 4)),
        ((6, 9), None),
        ((-2, 0), None),
        ((2, 2), None),
        ((3, 2), None),
    ],
)
def test_a_span_is_carried_by_the_tokens_that_hold_its_characters(span, expected):
    assert (
        token_range(lambda ids: "".join(TOKENS[each] for each in ids), range(4), span) == expected
    )
