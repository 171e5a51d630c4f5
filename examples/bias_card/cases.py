"""The cases of the bias card: estimators, their options, and closed forms of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bias_card.indexed import IndexMean, TurnForm
from docagent_rl.advantages import Discounts
from docagent_rl.advantages.gae import Anchor
from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import TurnBaseline
from docagent_rl.advantages.similarity import SelfWeight


class Family(StrEnum):
    """A table of the card, with the estimators whose advantages are made in the same way."""

    TRAJECTORY = "One number per trajectory"
    TURN = "One number per turn, compared within the group (`turn_grpo`)"
    SIMILARITY = "Compared with similar trajectories"
    CRITIC = "With a critic"
    OTHER = "Other"


class Critic(StrEnum):
    """The values that an estimator with a critic is given."""

    WRONG = "a critic that is wrong"
    EXACT = "an exact critic"


@dataclass(frozen=True, slots=True)
class Case:
    """An estimator with its options, which is one line of the card.

    Attributes:
        estimator: the estimator's name in `algorithm.adv_estimator`.
        name: the line's name in Markdown, unique in the card.
        options: the options, as in `docagent.advantage.options`.
        first: the closed form of the expected gradient of going on; empty if there is none.
        second: the same for picking well.
        critic: the values that the estimator gets, if it needs any.
        discounts: the discounts that it gets.
    """

    estimator: str
    name: str
    options: Mapping[str, Any]
    first: str = ""
    second: str = ""
    critic: Critic = Critic.WRONG
    discounts: Discounts = field(default_factory=Discounts)


def _grpo(first: str, second: str, **options: Any) -> Case:
    words = [f"std={options['std']}", *(["loo"] if options.get("loo") else [])]
    name = ", ".join(f"`{word}`" for word in ("trajectory_grpo", *words))
    return Case("trajectory_grpo", name, options, first, second)


def _turn(estimator: str, first: str, second: str, **options: Any) -> Case:
    words = [name if value is True else value for name, value in options.items()]
    return Case(estimator, ", ".join(f"`{word}`" for word in words), options, first, second)


def _critic(
    estimator: str,
    name: str,
    first: str = "",
    second: str = "",
    critic: Critic = Critic.WRONG,
    discounts: Mapping[str, float] | None = None,
    **options: Any,
) -> Case:
    given = {"whiten": False, **options}
    return Case(
        estimator,
        f"`{estimator}`, {name}",
        given,
        first,
        second,
        critic,
        Discounts(**(discounts or {})),
    )


# closed forms of expected gradients that several cases share; bias_card.page explains the letters
_VALUE_AFTER_CHOICE = (
    "g1 - D (V1(go on) - V1(stop))",
    "g2 - p q (1-q) (V2(good) - V2(bad))",
)
_WRONG_VALUE = "g1 - D (1-lam) (b - E[V2])"
_IF_REACHED = "g2 (1 - (1-(1-p)^G)/(Gp))"
_PADDED_MEAN = "u D (c - a + (1-p) b)"

_BROADCAST: dict[str, Any] = {"broadcast": True, "allow_biased": True}
_LAM_TOKEN_95 = {"lam_token": 0.95}
_LAM_TURN_50 = {"lam_turn": 0.5}

CASES: Mapping[Family, tuple[Case, ...]] = {
    Family.TRAJECTORY: (
        _grpo("u g1", "u g2", std=Std.NONE),
        _grpo("g1", "g2", std=Std.NONE, loo=True),
        _grpo("-> g1 / sigma", "-> g2 / sigma", std=Std.BIASED),
        _grpo("-> g1 / sigma", "-> g2 / sigma", std=Std.UNBIASED),
    ),
    Family.TURN: (
        _turn("turn_grpo", "u g1", _IF_REACHED, baseline=TurnBaseline.RTG_CENTERED),
        _turn(
            "turn_grpo", "g1", "g2 (1 - (1-p)^(G-1))", baseline=TurnBaseline.RTG_CENTERED, loo=True
        ),
        _turn("turn_grpo", "u g1", "u g2", baseline=TurnBaseline.FIXED_HORIZON),
        _turn("turn_grpo", "g1", "g2", baseline=TurnBaseline.FIXED_HORIZON, loo=True),
        _turn(
            "turn_index",
            "u D (c - a)",
            _IF_REACHED,
            form=TurnForm.SUFFIX,
            mean=IndexMean.SURVIVORS,
        ),
        _turn("turn_index", _PADDED_MEAN, "u g2", form=TurnForm.SUFFIX, mean=IndexMean.PADDED),
        _turn(
            "turn_index",
            "u D (c - a)",
            _IF_REACHED,
            form=TurnForm.BROADCAST,
            mean=IndexMean.SURVIVORS,
        ),
        _turn("turn_index", _PADDED_MEAN, "u g2", form=TurnForm.BROADCAST, mean=IndexMean.PADDED),
        _turn(
            "turn_index",
            "u D (c - a)",
            _IF_REACHED,
            form=TurnForm.MYOPIC,
            mean=IndexMean.SURVIVORS,
        ),
        Case(
            "turn_split", "split, `survivors`", {"mean": IndexMean.SURVIVORS}, "u D (b - a)", "u g2"
        ),
        Case(
            "turn_split",
            "split, `padded`",
            {"mean": IndexMean.PADDED},
            "u D ((1-p) c + b - a)",
            "u g2",
        ),
    ),
    Family.SIMILARITY: (
        Case(
            "spo",
            "`spo`, `self_weight=include`",
            {"self_weight": SelfWeight.INCLUDE},
            "-> h g1",
            "-> g2",
        ),
        Case("spo", "`spo`, `self_weight=loo`", {"self_weight": SelfWeight.LOO}, "-> h g1", "g2"),
    ),
    Family.CRITIC: (
        _critic("token_gae", "lam = 1", "g1", "g2"),
        _critic("token_gae", "lam = 0.95", discounts=_LAM_TOKEN_95),
        _critic("token_gae", "lam = 0.95, exact critic", "g1", "g2", Critic.EXACT, _LAM_TOKEN_95),
        _critic("turn_gae", "lam_turn = 1", "g1", "g2"),
        _critic(
            "turn_gae",
            "lam_turn = 0.5, `anchor=end`",
            _WRONG_VALUE,
            "g2",
            discounts=_LAM_TURN_50,
        ),
        _critic(
            "turn_gae",
            "lam_turn = 0.5, `anchor=start`",
            _WRONG_VALUE,
            "g2",
            discounts=_LAM_TURN_50,
            anchor=Anchor.START,
        ),
        _critic("turn_gae", "lam_turn = 0.5, exact critic", "g1", "g2", Critic.EXACT, _LAM_TURN_50),
        _critic(
            "turn_gae",
            "lam_turn = 1, gamma_turn = 0.9",
            "D (c + gamma b - a)",
            "g2",
            discounts={"gamma_turn": 0.9},
        ),
        _critic(
            "turn_gae", "`broadcast`, `anchor=start`", "g1", "g2", anchor=Anchor.START, **_BROADCAST
        ),
        _critic("turn_gae", "`broadcast`, `anchor=end`", *_VALUE_AFTER_CHOICE, **_BROADCAST),
        _critic(
            "turn_gae",
            "`broadcast`, `anchor=end`, exact critic",
            "0",
            "0",
            Critic.EXACT,
            **_BROADCAST,
        ),
    ),
}
