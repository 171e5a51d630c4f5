"""The estimators of the bias card: how each is called in the toy, and what its gradient is expected to be."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import torch
from torch import Tensor

from docagent_rl.advantages.group_turns import GroupTurns, IndexMean, index_advantages
from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import grpo
from docagent_rl.advantages.inputs import Discounts
from docagent_rl.advantages.similarity import SelfWeight
from docagent_rl.advantages.spo import spo
from docagent_rl.advantages.token_gae import token_gae
from docagent_rl.advantages.toy import Ending, ToyCritic
from docagent_rl.advantages.toy_groups import ToyGroups
from docagent_rl.advantages.turn_gae import Anchor, turn_gae
from docagent_rl.advantages.turn_grpo import TurnBaseline, turn_grpo

Estimator = Callable[[ToyGroups], Tensor]
"""Gives the advantages (n, g, 2) of the decisions."""


class Family(StrEnum):
    """What the advantage is made of."""

    SESSION = "One number a session"
    TURN = "One number a turn, compared within the group (`turn_grpo`)"
    SIMILARITY = "Compared with similar sessions"
    CRITIC = "With a critic"


class Critic(StrEnum):
    """Which values a critic has."""

    WRONG = "a critic that is wrong"
    EXACT = "an exact critic"


@dataclass(frozen=True)
class BiasRow:
    """One estimator of the card.

    Attributes:
        family: where it belongs.
        name: unique.
        estimator: see `Estimator`.
        first: closed form of the expected gradient of going on, empty where there is none.
        second: the same for picking well.
    """

    family: Family
    name: str
    estimator: Estimator
    first: str = ""
    second: str = ""


def bias_rows(similarity: float = 0.6) -> list[BiasRow]:
    """All estimators of the card; `similarity` is SPO's cosine between stopping and going on."""
    return [*_session_rows(), *_turn_rows(), *_similarity_rows(similarity), *_critic_rows()]


def _session_rows() -> list[BiasRow]:
    def row(name: str, first: str, second: str, **options: object) -> BiasRow:
        return BiasRow(Family.SESSION, name, partial(_grpo, **options), first, second)

    limit = ("-> g1 / sigma", "-> g2 / sigma")
    return [
        row("`session_grpo`, `std=none`", "u g1", "u g2", std=Std.NONE),
        row("`session_grpo`, `std=none`, `loo`", "g1", "g2", std=Std.NONE, loo=True),
        row("`session_grpo`, `std=biased`", *limit, std=Std.BIASED),
        row("`session_grpo`, `std=unbiased`", *limit, std=Std.UNBIASED),
    ]


def _turn_rows() -> list[BiasRow]:
    def row(baseline: TurnBaseline, first: str, second: str, **options: object) -> BiasRow:
        name = ", ".join(f"`{n}`" for n in (baseline, *options.values()) if n is not True)
        name += ", `loo`" if options.get("loo") else ""
        return BiasRow(Family.TURN, name, partial(_turn_grpo, baseline=baseline, **options), first, second)

    def split(name: str, mean: IndexMean, first: str) -> BiasRow:
        return BiasRow(Family.TURN, f"split, {name}", partial(_split, mean=mean), first, "u g2")

    survivors, padded = {"index_mean": IndexMean.SURVIVORS}, {"index_mean": IndexMean.PADDED}
    reached = "g2 (1 - (1-(1-p)^G)/(Gp))"
    living = "u D (c - a + (1-p) b)"
    return [
        row(TurnBaseline.RTG_CENTERED, "u g1", reached),
        row(TurnBaseline.RTG_CENTERED, "g1", "g2 (1 - (1-p)^(G-1))", loo=True),
        row(TurnBaseline.FIXED_HORIZON, "u g1", "u g2"),
        row(TurnBaseline.FIXED_HORIZON, "g1", "g2", loo=True),
        row(TurnBaseline.INDEX_SUFFIX, "u D (c - a)", reached, **survivors),
        row(TurnBaseline.INDEX_SUFFIX, living, "u g2", **padded),
        row(TurnBaseline.INDEX_BROADCAST, "u D (c - a)", reached, **survivors),
        row(TurnBaseline.INDEX_BROADCAST, living, "u g2", **padded),
        row(TurnBaseline.MYOPIC, "u D (c - a)", reached, **survivors),
        split("`survivors`", IndexMean.SURVIVORS, "u D (b - a)"),
        split("`padded`", IndexMean.PADDED, "u D ((1-p) c + b - a)"),
    ]


def _similarity_rows(similarity: float) -> list[BiasRow]:
    def row(weight: SelfWeight, first: str, second: str) -> BiasRow:
        estimator = partial(_spo, similarity=similarity, self_weight=weight)
        return BiasRow(Family.SIMILARITY, f"`spo`, `self_weight={weight}`", estimator, first, second)

    return [row(SelfWeight.INCLUDE, "-> h g1", "-> g2"), row(SelfWeight.LOO, "-> h g1", "g2")]


def _critic_rows() -> list[BiasRow]:
    def row(name: str, first: str, second: str, estimator: Callable, **options: object) -> BiasRow:
        return BiasRow(Family.CRITIC, name, partial(estimator, **options), first, second)

    true, wrong, exact = ("g1", "g2"), {"critic": Critic.WRONG}, {"critic": Critic.EXACT}
    end, start = {"anchor": Anchor.END, **wrong}, {"anchor": Anchor.START, **wrong}
    half, toll = Discounts(lam_turn=0.5), "g1 - D (1-lam) (b - E[V2])"
    seen = ("g1 - D (V1(go on) - V1(stop))", "g2 - p q (1-q) (V2(good) - V2(bad))")
    broadcast = {"broadcast": True, "i_know": True}
    short = Discounts(lam_token=0.95)
    return [
        row("`token_gae`, lam = 1", *true, _token_gae, **wrong),
        row("`token_gae`, lam = 0.95", "", "", _token_gae, discounts=short, **wrong),
        row("`token_gae`, lam = 0.95, exact critic", *true, _token_gae, discounts=short, **exact),
        row("`turn_gae`, lam_turn = 1", *true, _turn_gae, **end),
        row("`turn_gae`, lam_turn = 0.5, `anchor=end`", toll, "g2", _turn_gae, discounts=half, **end),
        row("`turn_gae`, lam_turn = 0.5, `anchor=start`", toll, "g2", _turn_gae, discounts=half, **start),
        row("`turn_gae`, lam_turn = 0.5, exact critic", *true, _turn_gae, discounts=half, **exact),
        row(
            "`turn_gae`, lam_turn = 1, gamma_turn = 0.9",
            "D (c + gamma b - a)",
            "g2",
            _turn_gae,
            discounts=Discounts(gamma_turn=0.9),
            **end,
        ),
        row("`turn_gae`, `broadcast`, `anchor=start`", *true, _turn_gae, **broadcast, **start),
        row("`turn_gae`, `broadcast`, `anchor=end`", *seen, _turn_gae, **broadcast, **end),
        row("`turn_gae`, `broadcast`, `anchor=end`, exact critic", "0", "0", _turn_gae, **broadcast, **exact),
    ]


def _grpo(groups: ToyGroups, **options: object) -> Tensor:
    return groups.decisions(grpo(groups.inputs(), **options).advantages)


def _turn_grpo(groups: ToyGroups, **options: object) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="turn_grpo", category=UserWarning)
        return groups.decisions(turn_grpo(groups.inputs(), **options).advantages)


def _split(groups: ToyGroups, mean: IndexMean) -> Tensor:
    """The last reward of a session compared over all sessions, those before it by turn index."""
    outcome = replace(groups, toy=replace(groups.toy, go_on_pay=0.0))
    advantages = _grpo(outcome, std=Std.NONE)
    session = (groups.endings != Ending.STOP).flatten().nonzero().squeeze(1)
    number, size = groups.endings.shape
    turns = GroupTurns(
        rewards=torch.full((len(session),), groups.toy.go_on_pay, dtype=torch.float64),
        session=session,
        ordinal=torch.zeros_like(session),
        group=session // size,
        size=torch.full((number,), size),
    )
    advantages[..., 0].view(-1)[session] += index_advantages(turns, mean=mean)
    return advantages


def _spo(groups: ToyGroups, similarity: float, self_weight: SelfWeight) -> Tensor:
    inputs = groups.inputs(similarity=similarity)
    return groups.decisions(spo(inputs, self_weight=self_weight).advantages)


def _token_gae(groups: ToyGroups, critic: Critic, discounts: Discounts | None = None) -> Tensor:
    inputs = groups.inputs(critic=_critic(groups, critic, discounts), discounts=discounts)
    return groups.decisions(token_gae(inputs, whiten=False).advantages)


def _turn_gae(
    groups: ToyGroups, critic: Critic, discounts: Discounts | None = None, **options: object
) -> Tensor:
    inputs = groups.inputs(critic=_critic(groups, critic, discounts), discounts=discounts)
    return groups.decisions(turn_gae(inputs, whiten=False, **options).advantages)


def _critic(groups: ToyGroups, critic: Critic, discounts: Discounts | None) -> ToyCritic:
    if critic == Critic.WRONG:
        return ToyCritic()
    return ToyCritic.exact(groups.toy, (discounts or Discounts()).gamma_turn)
