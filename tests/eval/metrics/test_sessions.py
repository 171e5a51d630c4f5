from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.eval.metrics.scored import Mean
from docagent_rl.eval.metrics.sessions import Price, SessionUse, Spread, session_table
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from learning.oracle import EXTRA_WORD
from tests.examples.learning.small_task import SmallTask


@pytest.mark.slow
def test_a_played_session_is_counted_as_its_ledger_has_it(tmp_path, processor):
    def write(trajectory):
        word = trajectory.record["extra"][EXTRA_WORD]
        return ("no action at all", f"<search>{word}</search>", "<answer>7</answer>")[len(trajectory.turns)]

    played = SmallTask(tmp_path, processor).play(write)
    (ledger,) = played.ledgers
    use = SessionUse.of(played.trajectory)
    assert (use.played, use.finished, use.turns, use.invalid) == (True, True, 3, 1)
    assert use.output_tokens == sum(len(turn.token_ids) for turn in ledger.turns)
    assert use.fresh_tokens + use.output_tokens == ledger.prompt_length + ledger.response_length
    lengths, total = [], ledger.prompt_length
    for turn in played.trajectory.turns:
        lengths.append(total)
        total += turn.sampled + turn.observation_tokens
    assert use.sent_tokens == sum(lengths)
    observed = [message for turn in played.trajectory.turns for message in turn.observation]
    assert use.images == sum("image" in part for message in observed for part in message["parts"]) > 0
    assert use.image_tokens > 0
    assert use.seconds > 0


def turn(row=0, sampled=1, observed=0, dropped=False, images=0):
    observation = [{"role": "user", "parts": [{"text": "x"}, *[{"image": {}}] * images]}]
    return TrajectoryTurn(
        "", "end_of_turn", [0] * sampled, [0.0] * sampled, observation=observation,
        observation_tokens=observed,
        dropped=dropped, seconds={"generate": 1.0, "step": 0.5}, row=row,
    )  # fmt: skip


def test_a_fresh_context_begins_with_its_own_prompt():
    turns = [turn(0, 2, 3, images=1), turn(0, 4, 100), turn(1, 5, 0, dropped=True, images=2)]
    trajectory = Trajectory("u", 0, 0, "val", {}, "s", prompt_tokens=10, turns=turns)
    trajectory.prompt = [{"role": "user", "parts": [{"image": {}}]}]
    use = SessionUse.of(trajectory)
    assert use.sent_tokens == 10 + (10 + 2 + 3) + 100
    assert use.fresh_tokens == 10 + 3 + 100
    assert (use.output_tokens, use.images, use.seconds) == (11, 2, 4.5)


def test_a_session_that_could_not_be_played_is_unfinished_and_in_no_mean():
    masked = Trajectory("u", 0, 0, "val", {}, "s", status=Status.MASKED.value, turns=[turn()])
    use = SessionUse.of(masked)
    table = session_table([use, SessionUse(True, True, turns=4, invalid=1, output_tokens=8, seconds=2.0)])
    assert (table.sessions, table.unplayed) == (2, 1)
    assert table.finish_rate == Mean(0.5, 2)
    assert table.invalid_rate == Mean(0.25, 1)
    assert table.output_tokens == Mean(8.0, 1)
    assert table.seconds == Spread(2.0, 2.0, 2.0, 2.0)
    assert table.cost is table.total_cost is None


def test_latency_is_given_with_its_tail():
    uses = [SessionUse(True, True, seconds=float(second)) for second in range(1, 102)]
    assert session_table(uses).seconds == Spread(51.0, 51.0, 96.0, 101.0)
    assert session_table([]).seconds == Spread(None, None, None, None)


def test_cost_counts_what_is_sent_again():
    use = SessionUse(True, True, sent_tokens=3_000_000, fresh_tokens=1_000_000, output_tokens=500_000)
    assert Price(2.0, 8.0).of(use) == pytest.approx(6 + 4)
    assert Price(2.0, 8.0, cached=0.5).of(use) == pytest.approx(2 + 1 + 4)
    table = session_table([use, use, SessionUse(False, False)], Price(2.0, 8.0))
    assert (table.cost, table.total_cost) == (Mean(10.0, 2), 20.0)


@pytest.mark.parametrize("prices", [(-1.0, 1.0), (1.0, float("nan")), (1.0, 1.0, float("inf"))])
def test_prices_are_checked(prices):
    with pytest.raises(ValueError):
        Price(*prices)


def uses(turns):
    invalid, finished = st.integers(0, turns), st.booleans()
    return st.builds(SessionUse, st.just(True), finished, turns=st.just(turns), invalid=invalid)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5).flatmap(uses) | st.just(SessionUse(False, False)), max_size=6))
def test_rates_equal_the_slow_reading(uses):
    table, played = session_table(uses), [use for use in uses if use.played]
    turns, invalid = sum(use.turns for use in played), sum(use.invalid for use in played)
    assert (table.sessions, table.unplayed) == (len(uses), len(uses) - len(played))
    assert table.invalid_turns == (pytest.approx(invalid / turns) if played else None)
    lists = {
        "finish_rate": [use.finished for use in uses],
        "invalid_rate": [use.invalid / use.turns for use in played],
        "turns": [use.turns for use in played],
    }
    for name, values in lists.items():
        wanted = pytest.approx(sum(values) / len(values)) if values else None
        assert getattr(table, name) == Mean(wanted, len(values))
