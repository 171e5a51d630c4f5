"""The tokens to which a trajectory's rewards are assigned, over one context or several."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from docagent_rl.envs.base import EndReason, Observation, RewardTerms, TextPart, TokenTerm
from docagent_rl.rollout.rollout import Limits
from tests.rollout.stage import LIMITS, Rewarding

FRESH, ON = True, False


def begun(stage, said, plan, *, limits=LIMITS, **env):
    """Return a trajectory of turns with these texts; without text, the policy samples a control
    token.
    """
    control = stage.codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    rollout = stage.rollout([text or [control] for text in said], limits=limits)
    rollout.env = Rewarding(plan, **env)
    return rollout


async def rewards_of(rollout, sample):
    """Return the rewards of each context's response tokens."""
    return [ledger.row().rewards for ledger in await rollout.play(sample)]


def on_the_last(reward, row):
    """Return the rewards of a row whose reward is on its last token only."""
    return [0.0] * (len(row) - 1) + [reward]


async def test_each_context_carries_the_reward_of_its_own_turn(stage):
    rollout = begun(
        stage, ["so be it", "a few", "more words"], [(FRESH, r, 0.0, 1.0) for r in (1.0, 2.0, 4.0)]
    )
    rows = await rewards_of(rollout, stage.sample)
    assert rows == [
        on_the_last(reward, row) for reward, row in zip((1.0, 2.0, 4.0), rows, strict=True)
    ]
    assert [turn.reward for turn in rollout.trajectory.turns] == [1.0, 2.0, 4.0]


async def test_turns_of_one_context_carry_their_own_rewards(stage):
    rollout = begun(
        stage, ["so be it", "a few", "more words"], [(ON, r, 0.0, 1.0) for r in (1.0, 2.0, 4.0)]
    )
    (ledger,) = await rollout.play(stage.sample)
    row = ledger.row()
    rewarded = {place: reward for place, reward in enumerate(row.rewards) if reward}
    ends = [place for place, _ in enumerate(row.turn_index) if _ends_a_turn(row.turn_index, place)]
    assert rewarded == dict(zip(ends, (1.0, 2.0, 4.0), strict=True))


def _ends_a_turn(index, place):
    return index[place] >= 0 and (place + 1 == len(index) or index[place + 1] != index[place])


async def test_a_context_without_a_sampled_token_leaves_its_reward_to_the_one_before(stage):
    rollout = begun(
        stage,
        ["so be it", "a few", None, "more"],
        [(FRESH, r, 0.0, 1.0) for r in (1.0, 2.0, 4.0, 8.0)],
    )
    first, second, third, last = await rewards_of(rollout, stage.sample)
    assert third == []
    assert [first[-1], second[-1], last[-1]] == [1.0, 2.0 + 4.0, 8.0]
    assert rollout.trajectory.reward == 15.0


@pytest.mark.parametrize("follows", [FRESH, ON])
async def test_rewards_wait_for_the_first_sampled_token(stage, follows):
    rollout = begun(
        stage,
        [None, None, "so be it", "more"],
        [(follows, r, 0.0, 1.0) for r in (1.0, 2.0, 4.0, 8.0)],
    )
    rows = [row for row in await rewards_of(rollout, stage.sample) if row]
    assert [reward for row in rows for reward in row if reward] == [7.0, 8.0]
    assert rollout.pending_reward == 0.0
    assert rollout.trajectory.reward == 15.0


async def test_rewards_without_any_sampled_token_stay_unplaced(stage):
    rollout = begun(stage, [None, None], [(FRESH, 1.0, -0.5, 2.0), (FRESH, 2.0, 0.0, 1.0)])
    assert await rewards_of(rollout, stage.sample) == [[], []]
    assert rollout.pending_reward == 2.0
    assert rollout.trajectory.reward == 0.0


async def test_terms_stand_on_the_tokens_of_their_own_context(stage):
    plan = [(FRESH, 1.0, -0.5, 1.0), (FRESH, 2.0, -0.25, 2.0), (FRESH, 4.0, 0.0, 1.0)]
    rollout = begun(stage, ["a word", "this other word here", "no more"], plan)
    ledgers = await rollout.play(stage.sample)
    rows = [ledger.row() for ledger in ledgers]
    for row, (_, reward, value, weight), turn in zip(
        rows, plan, rollout.trajectory.turns, strict=True
    ):
        assert row.rewards[-1] == reward
        assert sum(row.rewards[:-1]) == pytest.approx(weight * value)
        carriers = [
            token for token, r in zip(row.response_ids[:-1], row.rewards, strict=False) if r
        ]
        assert ("wor" in stage.codec.decode(carriers)) is bool(value)
        # the record has the value before its weight, with the tokens that carry it
        noted = [(name, value) for name, _, _, value in turn.token_terms]
        assert noted == ([("penalty", value)] if value else [])
        for _, begin, end, _ in turn.token_terms:
            assert row.response_ids[begin:end] == carriers


async def test_a_term_on_a_turn_without_tokens_is_placed_with_its_reward(stage):
    plan = [(FRESH, 1.0, 0.0, 1.0), (FRESH, 2.0, -0.5, 3.0)]
    rollout = begun(stage, ["so be it", None], plan)
    first, second = await rewards_of(rollout, stage.sample)
    assert second == []
    assert first == on_the_last(1.0 + 2.0 - 1.5, first)
    last = rollout.trajectory.turns[-1]
    assert (last.token_terms, last.reward) == ([], 0.5)


class WithTermBeyondTheText(Rewarding):
    """Puts before the terms of each turn one whose span lies behind the turn's text."""

    async def step(self, turn):
        result = await super().step(turn)
        beyond = TokenTerm("beyond", (10_000, 10_001), -1.0, 2.0)
        self.rewards[-1] += beyond.reward
        terms = replace(result.terms, tokens=(beyond, *result.terms.tokens))
        return replace(result, terms=terms)


async def test_terms_after_one_without_tokens_keep_their_own_tokens(stage):
    rollout = stage.rollout(["a word here"])
    rollout.env = WithTermBeyondTheText([(FRESH, 8.0, -0.5, 1.0)])
    (row,) = await rewards_of(rollout, stage.sample)
    assert row[-1] == 8.0 - 2.0
    assert sum(row[:-1]) == -0.5
    assert [name for name, *_ in rollout.trajectory.turns[-1].token_terms] == ["penalty"]


CONCLUDING = RewardTerms({"end": -1.0}, -1.0)


async def test_the_terms_of_a_full_context_belong_to_the_last_turn(stage):
    said = "so be it"
    turn = len(stage.codec.tokenizer.encode(said, add_special_tokens=False)) + 1
    limits = Limits(prompt=2000, response=turn + 1, turn=200, min_turn=1)
    rollout = begun(stage, [said], [(ON, 2.0, 0.0, 1.0)] * 2, limits=limits, concluding=CONCLUDING)
    (row,) = await rewards_of(rollout, stage.sample)
    assert row == on_the_last(2.0 - 1.0, row)
    (last,) = rollout.trajectory.turns
    assert (last.reward, last.terms["end"], last.dropped) == (1.0, -1.0, True)
    assert rollout.env.reasons == [EndReason.CONTEXT_FULL]
    assert rollout.trajectory.end == "context_full"
    assert rollout.trajectory.reward == 1.0


async def test_a_context_that_cannot_be_opened_rewards_the_one_before(stage):
    begin = stage.codec.prompt_ids(Observation.user(TextPart("s")))
    limits = Limits(prompt=len(begin), response=100, turn=20)
    env = {"concluding": CONCLUDING, "prompt": "s", "shown": "s and more"}
    rollout = begun(stage, ["so be it"], [(FRESH, 2.0, 0.0, 1.0)] * 2, limits=limits, **env)
    (row,) = await rewards_of(rollout, stage.sample)
    assert row == on_the_last(1.0, row)
    assert rollout.env.reasons == [EndReason.CONTEXT_FULL]


@pytest.mark.parametrize("first", ["so be it", None])
async def test_a_full_context_after_an_empty_turn_rewards_what_was_sampled(stage, first):
    begin = stage.codec.prompt_ids(Observation.user(TextPart("s")))
    limits = Limits(prompt=len(begin), response=100, turn=20)
    env = {"concluding": CONCLUDING, "prompt": "s", "shown": "s"}
    rollout = begun(stage, [first, None], [(FRESH, 2.0, 0.0, 1.0)] * 3, limits=limits, **env)
    rollout.env.step = _then_too_long(rollout.env)
    rows = await rewards_of(rollout, stage.sample)
    assert rows[1] == []
    assert rows[0] == (on_the_last(2.0 + 2.0 - 1.0, rows[0]) if first else [])
    assert [turn.reward for turn in rollout.trajectory.turns] == [2.0, 1.0]


def _then_too_long(env):
    """The environment's steps, of which the second shows more than a prompt may have."""
    step = env.step

    async def longer(turn):
        if env.rewards:
            env.shown = "s and more"
        return await step(turn)

    return longer


PLANS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([None, "so be it", "a few more words"]),
        st.sampled_from([-1.0, 0.5, 2.0]),
        st.sampled_from([0.0, 0.25]),
        st.sampled_from([-1.0, 0.5]),
    ),
    min_size=1,
    max_size=6,
)


def placed_slowly(plan):
    """Independent of the rollout: the reward that each turn's tokens carry together.

    A turn's reward stands on the turn itself, else on the nearest turn before it that has tokens,
    else on the first one after it.
    """
    sampled = [number for number, (_, text, *_) in enumerate(plan) if text]
    carried = [0.0] * len(plan)
    for number, (_, _, reward, value, weight) in enumerate(plan):
        before = [each for each in sampled if each <= number]
        after = [each for each in sampled if each > number]
        carrier = before[-1] if before else after[0] if after else None
        if carrier is not None:
            carried[carrier] += reward + weight * value
    return carried


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=PLANS)
@example(plan=[(FRESH, "so be it", 0.5, 0.0, 1.0), (FRESH, "so be it", 2.0, 0.0, 1.0)])
@example(
    plan=[
        (FRESH, None, 0.5, 0.25, 0.5),
        (ON, None, 2.0, 0.0, 1.0),
        (ON, "so be it", -1.0, 0.0, 1.0),
    ]
)
def test_every_reward_stands_on_the_nearest_sampled_turn(stage, plan):
    said = [text for _, text, *_ in plan]
    rollout = begun(stage, said, [(fresh, *reward) for fresh, _, *reward in plan])
    ledgers = asyncio.run(rollout.play(stage.sample))
    carried = [sum(turn.rewards) for ledger in ledgers for turn in ledger.turns]
    assert carried == pytest.approx(placed_slowly(plan), abs=1e-9)
    numbers = [turn.row for turn in rollout.trajectory.turns]
    assert numbers == [row for row, ledger in enumerate(ledgers) for _ in ledger.turns]
