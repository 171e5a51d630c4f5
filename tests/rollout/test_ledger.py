from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rollout.ledger import NO_TURN, TurnLedger

IMAGE = 9


@dataclass(frozen=True)
class Picture:
    num_tokens: int


def make(max_response=50, prompt=(1, 2, 3), **kwargs):
    return TurnLedger(prompt, max_response=max_response, image_token_id=IMAGE, **kwargs)


def test_worked_example():
    ledger = make()
    ledger.add_turn([4, 5], [-0.1, -0.2])
    ledger.add_reward(0.5)
    assert ledger.add_observation([6, IMAGE, IMAGE, 7], [Picture(2)])
    ledger.add_turn([8], [-0.3])
    ledger.add_reward(1.0)
    assert (ledger.prompt_length, ledger.response_length) == (3, 7)
    row = ledger.row()
    assert row.prompt_ids == [1, 2, 3]
    assert row.response_ids == [4, 5, 6, IMAGE, IMAGE, 7, 8]
    assert row.response_mask == [1, 1, 0, 0, 0, 0, 1]
    assert row.log_probs == [-0.1, -0.2, 0.0, 0.0, 0.0, 0.0, -0.3]
    assert row.turn_index == [0, 0, -1, -1, -1, -1, 1]
    assert row.rewards == [0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert row.images == (Picture(2),)


def test_prompt_images_stay():
    ledger = make(prompt=(1, IMAGE, 2), images=[Picture(1)])
    ledger.add_turn([4])
    assert ledger.row().images == (Picture(1),)


def test_reward_of_an_empty_turn_moves_to_the_nearest_earlier_sampled_token():
    ledger = make()
    ledger.add_turn([4, 5])
    ledger.add_observation([6])
    ledger.add_turn([])
    ledger.add_reward(0.7)
    row = ledger.row()
    assert row.response_ids == [4, 5]
    assert row.rewards == [0.0, 0.7]


def test_what_follows_the_last_sampled_token_is_no_part_of_the_row():
    ledger = make()
    ledger.add_turn([])
    ledger.add_observation([6])
    assert ledger.row().response_ids == []
    ledger.add_turn([4])
    ledger.add_observation([7])
    ledger.add_turn([])
    ledger.add_observation([8])
    assert ledger.row().response_ids == [6, 4]


def test_token_rewards_are_split_over_their_range():
    ledger = make()
    ledger.add_turn([4, 5, 6])
    ledger.add_reward(1.0, tokens=[(0, 2, -0.4)])
    assert ledger.row().rewards == pytest.approx([-0.2, -0.2, 1.0])
    with pytest.raises(IndexError, match=r"2, 4\b"):
        ledger.add_reward(0.0, tokens=[(2, 4, 1.0)])


@pytest.mark.parametrize(
    "action",
    [
        lambda ledger: ledger.add_turn([4] * 51),
        lambda ledger: ledger.add_turn([4, 5], [0.0]),
        lambda ledger: ledger.add_turn([IMAGE]),
        lambda ledger: ledger.add_observation([4]),
    ],
)
def test_misuse_is_refused(action):
    with pytest.raises(ValueError):
        action(make())


def test_a_turn_has_one_observation():
    ledger = make()
    ledger.add_turn([4])
    ledger.add_observation([5])
    with pytest.raises(ValueError):
        ledger.add_observation([6])


def test_placeholders_and_features_must_match():
    ledger = make()
    ledger.add_turn([4])
    with pytest.raises(ValueError, match=r"2\b.*\b3\b"):
        ledger.add_observation([IMAGE, IMAGE], [Picture(3)])
    with pytest.raises(ValueError, match=r"1\b.*\b0\b"):
        make(prompt=(1, IMAGE))
    without_images = TurnLedger([1, IMAGE], max_response=9, image_token_id=None)
    assert without_images.token_ids == [1, IMAGE]


def test_log_probs_are_there_for_every_turn_or_not_at_all():
    ledger = make()
    ledger.add_turn([4], [-0.5])
    ledger.add_observation([5])
    ledger.add_turn([6])
    assert ledger.row().log_probs is None
    assert make().row().log_probs is None


def test_a_turn_without_sampled_tokens_between_others_takes_no_place():
    ledger = make()
    ledger.add_turn([4], [-0.5])
    ledger.add_observation([5])
    ledger.add_turn([])
    ledger.add_observation([6])
    ledger.add_turn([7], [-0.25])
    row = ledger.row()
    assert row.response_ids == [4, 5, 6, 7]
    assert row.log_probs == [-0.5, 0.0, 0.0, -0.25]
    assert row.turn_index == [0, NO_TURN, NO_TURN, 2]


turns = st.lists(
    st.tuples(
        st.lists(st.integers(10, 20), max_size=6),  # sampled ids
        st.lists(st.integers(10, 20), min_size=1, max_size=5),  # observation text
        st.lists(st.integers(1, 4), max_size=2),  # images by size
        st.floats(-2, 2),
    ),
    max_size=7,
)


@given(turns=turns, limit=st.integers(1, 60), reserve=st.integers(1, 5))
def test_invariants_hold_for_any_sequence_of_turns_and_limits(turns, limit, reserve):
    ledger = make(max_response=limit)
    added = 0.0
    for sampled, text, sizes, reward in turns:
        sampled = sampled[: ledger.room]
        ledger.add_turn(sampled, [-0.5] * len(sampled))
        ledger.add_reward(reward)
        if ledger.sampled:
            added += reward
        pictures = [Picture(n) for n in sizes]
        before = (ledger.token_ids, ledger.images)
        ids = text + [IMAGE] * sum(sizes)
        fits = ledger.add_observation(ids, pictures, reserve=reserve)
        assert fits == (len(before[0]) - 3 + len(ids) + reserve <= limit)
        if not fits:
            assert (ledger.token_ids, ledger.images) == before
            break
    row = ledger.row()
    everything = [i for turn in ledger.turns for i in turn.token_ids]
    length = len(row.response_ids)
    assert length <= limit
    assert {len(row.response_mask), len(row.turn_index), len(row.rewards)} == {length}
    assert [i for i, m in zip(row.response_ids, row.response_mask, strict=True) if m] == everything
    assert row.response_ids.count(IMAGE) == sum(p.num_tokens for p in row.images)
    assert all(
        (k == NO_TURN) == (m == 0) for k, m in zip(row.turn_index, row.response_mask, strict=True)
    )
    assert sum(row.rewards) == pytest.approx(added)
    assert all(r == 0 for r, m in zip(row.rewards, row.response_mask, strict=True) if not m)
    assert ledger.token_ids[: 3 + length] == [1, 2, 3, *row.response_ids]
    if length:
        assert row.response_mask[-1] == 1
        assert row.log_probs is not None
        assert len(row.log_probs) == length


def test_a_turn_may_fill_the_room_to_its_last_token():
    ledger = make(max_response=3)
    ledger.add_turn([4, 5, 6])
    assert (ledger.room, ledger.response_length, ledger.sampled) == (0, 3, 3)
    assert not ledger.add_observation([7])
    ledger.add_turn([])
    assert ledger.row().response_ids == [4, 5, 6]
    with pytest.raises(ValueError, match="a turn of 1 tokens exceeds the room of 0"):
        ledger.add_turn([7])


@pytest.mark.parametrize(
    ("tokens", "reserve", "fits"), [(4, 1, True), (5, 0, True), (5, 1, False), (0, 5, True)]
)
def test_an_observation_fits_to_the_token(tokens, reserve, fits):
    ledger = make(max_response=8)
    ledger.add_turn([4, 5, 6])
    assert ledger.fits(tokens, reserve=reserve) is fits
    assert ledger.add_observation([7] * tokens, reserve=reserve) is fits
    assert ledger.room == (5 - tokens if fits else 5)


def test_an_observation_leaves_a_token_for_the_next_turn_unless_told_otherwise():
    for tokens, fits in ((4, True), (5, False)):
        ledger = make(max_response=5)
        ledger.add_turn([])
        assert ledger.fits(tokens) is ledger.add_observation([7] * tokens) is fits


def test_images_of_the_prompt_come_before_those_of_observations():
    ledger = make(prompt=(1, IMAGE), images=[Picture(1)])
    ledger.add_turn([4])
    ledger.add_observation([IMAGE, IMAGE], [Picture(2)])
    assert ledger.images == (Picture(1), Picture(2))
    # what follows the last sampled token is no part of the row, with its images
    assert ledger.row().images == (Picture(1),)
    ledger.add_turn([5])
    ledger.add_observation([IMAGE] * 3, [Picture(3)])
    assert ledger.row().images == (Picture(1), Picture(2))
    assert ledger.images == (Picture(1), Picture(2), Picture(3))


@pytest.mark.parametrize(
    "tokens", [(0, 0, 1.0), (2, 1, 1.0), (-1, 1, 1.0), (0, 3, 1.0), (2, 3, 1.0)]
)
def test_a_range_lies_in_the_last_turn(tokens):
    ledger = make()
    ledger.add_turn([4, 5, 6])
    ledger.add_turn([7, 8])
    with pytest.raises(IndexError, match="outside a turn of 2 tokens"):
        ledger.add_reward(0.0, tokens=[tokens])


def test_ranges_are_of_the_last_turn_and_add_up():
    ledger = make()
    ledger.add_turn([4, 5, 6])
    ledger.add_turn([7, 8])
    ledger.add_reward(0.5, tokens=[(0, 2, 1.0), (1, 2, -0.25)])
    assert [turn.rewards for turn in ledger.turns] == [[0.0, 0.0, 0.0], [0.5, 0.75]]


def test_what_a_ledger_hands_out_is_a_copy():
    ledger = make()
    ledger.add_turn([4])
    ledger.token_ids.append(9)
    assert ledger.token_ids == [1, 2, 3, 4]


def test_turns_without_a_sampled_token_are_no_row():
    ledger = make()
    for _ in range(3):
        ledger.add_turn([], [])
        ledger.add_observation([6])
    row = ledger.row()
    assert (row.response_ids, row.rewards, row.log_probs) == ([], [], None)
