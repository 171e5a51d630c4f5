"""Compute advantages of stored trajectories with any estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor
from verl import DataProto

# Imported at the top: verl keeps the errors of its optional imports, which reference the frames in
# which it was first imported.
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from docagent_rl.advantages import Discounts, Estimator, Need
from docagent_rl.advantages.embedder import embedder_class
from docagent_rl.base.errors import UserError
from docagent_rl.config import AdvantageConfig
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.trainer.estimators import known_estimators, our_estimator
from docagent_rl.training.trainer.inputs import advantage_inputs, rewarded_turns


class Crediting:
    """Computes the advantages of turns in stored trajectories with one configuration.

    `run` has the sections `algorithm` and `docagent`; `settings` is `docagent.advantage`.

    Raises:
        UserError: there is no such estimator.
    """

    def __init__(self, run: DictConfig, settings: AdvantageConfig) -> None:
        self._algorithm = run.algorithm
        self._settings = settings
        name = run.algorithm.get("adv_estimator")
        self._name = None if name is None else str(name)
        if self._name is not None and self._name not in known_estimators():
            raise UserError(
                f"algorithm.adv_estimator={name}: there is no such estimator; use one of "
                f"{', '.join(known_estimators())}"
            )
        self._ours = None if self._name is None else our_estimator(self._name)
        self._embedder: Any | None = None

    @property
    def possible(self) -> bool:
        """True if an estimator is set, and stored trajectories contain what it needs."""
        valued = self._ours is not None and Need.VALUES in self._ours.needs
        return self._name not in (None, "gae") and not valued

    def turns(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Return the mean advantage of the tokens of every turn; 0 for a turn without sampled
        tokens.

        `trajectories` are those of one step.

        Raises:
            UserError: the estimator needs something that is not stored.
        """
        rows = SampledRows.of(
            [TrajectoryDigest.of(each, self._settings.text) for each in trajectories]
        )
        ours = self._ours
        advantages = self._of_verl(rows) if ours is None else self._of_ours(ours, rows)

        def mean_advantage(span: TurnSpan | None) -> float:
            if span is None:
                return 0.0
            row, first, end = span
            return float(advantages[row, first:end].mean())

        return [[mean_advantage(span) for span in spans] for spans in rows.spans]

    def _of_ours(self, estimator: Estimator, rows: SampledRows) -> Tensor:
        if Need.VALUES in estimator.needs:
            raise UserError(
                f"algorithm.adv_estimator={self._name} needs a critic's values, which stored "
                "trajectories do not contain"
            )
        algorithm = self._algorithm
        settings = self._settings
        inputs = advantage_inputs(
            keys=rows.keys,
            trajectories=rows.trajectories,
            token_rewards=rows.rewards,
            turn_index=rows.turn_index,
            values=None,
            discounts=Discounts(
                algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn
            ),
            needs=estimator.needs,
            embed=self._embed,
        )
        return estimator.compute(inputs, settings.options).advantages

    def _embed(self, texts: Sequence[str]) -> Tensor:
        if self._embedder is None:
            self._embedder = embedder_class(self._settings.embedder)(self._settings.embedder)
        return torch.from_numpy(self._embedder.embed(texts).vectors.copy())

    def _of_verl(self, rows: SampledRows) -> Tensor:
        algorithm = self._algorithm
        uids = np.array([key.rsplit("_", 2)[0] for key in rows.keys], dtype=object)
        data = DataProto.from_single_dict(
            {
                "response_mask": (rows.turn_index >= 0).long(),
                "token_level_rewards": rows.rewards,
                "uid": uids,
            }
        )
        try:
            computed = compute_advantage_for_multi_trajectories(
                data,
                batch_keys=rows.keys,
                adv_estimator=self._name,
                gamma=algorithm.gamma,
                lam=algorithm.lam,
                norm_adv_by_std_in_grpo=algorithm.get("norm_adv_by_std_in_grpo", True),
                config=algorithm,
            )
        except KeyError as error:
            raise UserError(
                f"algorithm.adv_estimator={self._name} needs {error}, which stored trajectories do "
                "not contain"
            ) from error
        return cast("Tensor", computed.batch["advantages"])


TurnSpan = tuple[int, int, int]
"""The row of a turn, and the half-open range of its sampled tokens in the row."""


@dataclass(frozen=True, slots=True)
class SampledRows:
    """The sampled tokens of a step's trajectories, row by row.

    `keys` are verl's keys, `trajectories` the trajectory of each row; `turn_index` (b, s) is -1
    after a row's last token, and `rewards` (b, s) has the reward of a turn on its last token.
    `spans` contains, by trajectory and turn, where its tokens are, or None if nothing was sampled.
    """

    keys: list[str]
    trajectories: list[TrajectoryDigest]
    turn_index: Tensor
    rewards: Tensor
    spans: list[list[TurnSpan | None]]

    @classmethod
    def of(cls, trajectories: Sequence[TrajectoryDigest]) -> SampledRows:
        """Return the rows of trajectories with sampled tokens."""
        keys: list[str] = []
        owners: list[TrajectoryDigest] = []
        turn_indexes: list[Tensor] = []
        rewards: list[Tensor] = []
        spans: list[list[TurnSpan | None]] = []

        for trajectory in trajectories:
            own_spans: list[TurnSpan | None] = [None] * len(trajectory.turns)
            for row in sorted({turn.row for turn in trajectory.turns if turn.sampled}):
                in_row = _turn_spans(trajectory, row)
                for number, (first, end) in in_row.items():
                    if end > first:
                        own_spans[number] = (len(keys), first, end)
                keys.append(f"{trajectory.uid}_{trajectory.number}_{row}")
                owners.append(trajectory)
                turn_indexes.append(_index_of_tokens(in_row.values()))
                rewards.append(_row_rewards(trajectory, row, list(in_row.values())))
            spans.append(own_spans)

        padded = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        return cls(
            keys=keys,
            trajectories=owners,
            turn_index=padded(turn_indexes, padding_value=-1),
            rewards=padded(rewards, padding_value=0),
            spans=spans,
        )


def _turn_spans(trajectory: TrajectoryDigest, row: int) -> dict[int, tuple[int, int]]:
    """Return the begin and end of each turn's sampled tokens in a row, by the turn's number."""
    spans = {}
    end = 0
    for number, turn in enumerate(trajectory.turns):
        if turn.row == row:
            spans[number] = (end, end + turn.sampled)
            end += turn.sampled
    return spans


def _index_of_tokens(spans: Iterable[tuple[int, int]]) -> Tensor:
    """Return for each token of a row the number of its turn within the row."""
    return torch.repeat_interleave(torch.tensor([end - first for first, end in spans]))


def _row_rewards(
    trajectory: TrajectoryDigest, row: int, spans: Sequence[tuple[int, int]]
) -> Tensor:
    """Return the rewards of a row's tokens: the reward of a turn is on its last token."""
    rewards = torch.zeros(spans[-1][1])
    for turn, ordinal in rewarded_turns(trajectory.turns, row):
        last = spans[ordinal][1] - 1
        rewards[last] += turn.reward
    return rewards
