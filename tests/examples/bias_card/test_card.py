"""The card agrees with closed forms of every estimator's expected gradient, and with numbers that
were computed without this code.
"""

from collections.abc import Callable
from functools import cache, partial

import pytest

from bias_card.card import Measured, Verdict, bias_card
from bias_card.rows import BiasRow, bias_rows
from bias_card.toy import Toy, ToyCritic
from bias_card.toy_groups import ToyGroups
from docagent_rl.advantages.gae import Anchor
from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import grpo
from docagent_rl.advantages.similarity import SelfWeight
from docagent_rl.advantages.spo import spo

OTHER = Toy(
    go_on=0.8, good=0.25, stop_reward=-0.5, go_on_reward=-0.3, good_reward=-1.0, bad_reward=1.5
)
Pair = tuple[float, float]
Form = Callable[[Toy, int], Pair]
SIZES = [2, 4, 8]


@cache
def groups(toy: Toy, size: int) -> ToyGroups:
    return (ToyGroups.ordered if size <= 4 else ToyGroups.counted)(toy, size)


def expectation(toy: Toy, size: int, row: BiasRow) -> list[float]:
    all_groups = groups(toy, size)
    return all_groups.moments(row.estimator(all_groups))[0].tolist()


def spread(toy: Toy) -> float:
    return toy.go_on * (1 - toy.go_on)


def u(size: int) -> float:
    return 1 - 1 / size


def whole(scale: Callable[[int], float]) -> Form:
    return lambda toy, size: (
        scale(size) * float(toy.gradient[0]),
        scale(size) * float(toy.gradient[1]),
    )


def reached(toy: Toy, size: int) -> float:
    return float(toy.gradient[1]) * (1 - (1 - (1 - toy.go_on) ** size) / (size * toy.go_on))


def first(form: Callable[[Toy], float], second: Callable[[Toy, int], float]) -> Form:
    return lambda toy, size: (u(size) * spread(toy) * form(toy), second(toy, size))


def scaled_second(toy: Toy, size: int) -> float:
    return u(size) * float(toy.gradient[1])


def living(toy: Toy) -> float:
    return toy.go_on_reward - toy.stop_reward + (1 - toy.go_on) * toy.second_mean


def own_turn(toy: Toy) -> float:
    return toy.go_on_reward - toy.stop_reward


def second_value(toy: Toy, anchor: Anchor) -> float:
    critic = ToyCritic()
    if anchor == Anchor.START:
        return critic.second
    return toy.good * critic.picked_good + (1 - toy.good) * critic.picked_bad


def bootstrapped(toy: Toy, size: int, anchor: Anchor) -> Pair:
    error = second_value(toy, anchor) - toy.second_mean
    return float(toy.gradient[0]) + spread(toy) * 0.5 * error, float(toy.gradient[1])


def discounted(toy: Toy, size: int) -> Pair:
    return spread(toy) * (toy.go_on_reward + 0.9 * toy.second_mean - toy.stop_reward), float(
        toy.gradient[1]
    )


def seen(toy: Toy, size: int) -> Pair:
    critic, second = ToyCritic(), toy.go_on * toy.good * (1 - toy.good)
    return (
        float(toy.gradient[0]) - spread(toy) * (critic.went_on - critic.stopped),
        float(toy.gradient[1]) - second * (critic.picked_good - critic.picked_bad),
    )


def short_lambda(toy: Toy, size: int) -> Pair:
    """Compute token-level GAE at lambda = 0.95, written out."""
    lam, critic = 0.95, ToyCritic()
    later = (1 - lam) * critic.second + lam * (
        (1 - lam) * second_value(toy, Anchor.END) + lam * toy.second_mean
    )
    going_on = (1 - lam) * critic.went_on + lam * (toy.go_on_reward + later)
    stopping = (1 - lam) * critic.stopped + lam * toy.stop_reward
    picks = (1 - lam) * (critic.picked_good - critic.picked_bad) + lam * (
        toy.good_reward - toy.bad_reward
    )
    return spread(toy) * (going_on - stopping), toy.go_on * toy.good * (1 - toy.good) * picks


UNBIASED = whole(lambda _: 1.0)
FORMS: dict[str, Form] = {
    "`trajectory_grpo`, `std=none`": whole(u),
    "`trajectory_grpo`, `std=none`, `loo`": UNBIASED,
    "`rtg_centered`": lambda t, g: (u(g) * float(t.gradient[0]), reached(t, g)),
    "`rtg_centered`, `loo`": lambda t, g: (
        float(t.gradient[0]),
        float(t.gradient[1]) * (1 - (1 - t.go_on) ** (g - 1)),
    ),
    "`fixed_horizon`": whole(u),
    "`fixed_horizon`, `loo`": UNBIASED,
    "`index_suffix`, `survivors`": first(own_turn, reached),
    "`index_suffix`, `padded`": first(living, scaled_second),
    "`index_broadcast`, `survivors`": first(own_turn, reached),
    "`index_broadcast`, `padded`": first(living, scaled_second),
    "`myopic`, `survivors`": first(own_turn, reached),
    "split, `survivors`": first(lambda t: t.second_mean - t.stop_reward, scaled_second),
    "split, `padded`": first(lambda t: t.gain - t.go_on * t.go_on_reward, scaled_second),
    "`token_gae`, lam = 1": UNBIASED,
    "`token_gae`, lam = 0.95": short_lambda,
    "`token_gae`, lam = 0.95, exact critic": UNBIASED,
    "`turn_gae`, lam_turn = 1": UNBIASED,
    "`turn_gae`, lam_turn = 0.5, `anchor=end`": partial(bootstrapped, anchor=Anchor.END),
    "`turn_gae`, lam_turn = 0.5, `anchor=start`": partial(bootstrapped, anchor=Anchor.START),
    "`turn_gae`, lam_turn = 0.5, exact critic": UNBIASED,
    "`turn_gae`, lam_turn = 1, gamma_turn = 0.9": discounted,
    "`turn_gae`, `broadcast`, `anchor=start`": UNBIASED,
    "`turn_gae`, `broadcast`, `anchor=end`": seen,
    "`turn_gae`, `broadcast`, `anchor=end`, exact critic": whole(lambda _: 0.0),
}
ROWS = {row.name: row for row in bias_rows()}
WITHOUT_FORM = {
    name for name in ROWS if name.startswith("`spo`") or "`std=biased`" in name or "`std=un" in name
}


def test_all_rows_are_covered():
    assert set(FORMS) | WITHOUT_FORM == set(ROWS)
    assert len(ROWS) == len(bias_rows())


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("toy", "size"), [*((Toy(), size) for size in SIZES), (OTHER, 2), (OTHER, 4)]
)
def test_closed_forms(name, toy, size):
    assert expectation(toy, size, ROWS[name]) == pytest.approx(FORMS[name](toy, size), abs=1e-12)


@pytest.mark.parametrize(
    ("std", "want"), [(Std.BIASED, [0.110424, 0.179128]), (Std.UNBIASED, [0.095629, 0.155130])]
)
def test_grpo_with_std(std, want):
    four = groups(Toy(), 4)
    found = four.moments(four.decisions(grpo(four.inputs(), std=std).advantages))[0]
    assert found.tolist() == pytest.approx(want, abs=1e-6)


def spo_gradient(size: int, similarity: float, weight: SelfWeight) -> list[float]:
    some = ToyGroups.enumerate(Toy(), size)
    advantages = spo(some.inputs(similarity=similarity), self_weight=weight).advantages
    return some.moments(some.decisions(advantages))[0].tolist()


@pytest.mark.parametrize(
    ("size", "weight", "want"),
    [
        (2, SelfWeight.INCLUDE, [0.063, 0.04455]),
        (4, SelfWeight.INCLUDE, [0.097290, 0.073487]),
        (4, SelfWeight.LOO, [0.144316, 0.108]),
    ],
)
def test_spo(size, weight, want):
    assert spo_gradient(size, 0.6, weight) == pytest.approx(want, abs=1e-6)


@cache
def card(size: int) -> dict[str, Measured]:
    return {each.row.name: each for each in bias_card(group_size=size)}


def test_the_variance_of_trajectories_apart_falls_with_their_number():
    name = "`token_gae`, lam = 1"
    assert card(2)[name].variance == pytest.approx([2 * v for v in card(4)[name].variance])
    # the score of going on times the return minus 0.9, trajectory by trajectory
    by_hand = 0.7 * (0.3 * 0.1) ** 2 + 0.3 * (0.6 * (0.7 * 1.5) ** 2 + 0.4 * 0.0**2) - 0.168**2
    assert card(4)[name].variance[0] == pytest.approx(by_hand / 4)
    # leave-one-out is the same estimate, longer
    centred, loo = (card(4)["`trajectory_grpo`, `std=none`" + more] for more in ("", ", `loo`"))
    assert loo.variance == pytest.approx([v * (4 / 3) ** 2 for v in centred.variance])
    silent = card(4)["`turn_gae`, `broadcast`, `anchor=end`, exact critic"]
    assert (loo.verdict, centred.verdict, silent.verdict) == (
        Verdict.UNBIASED,
        Verdict.SCALED,
        Verdict.SILENT,
    )
