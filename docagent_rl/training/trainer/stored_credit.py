"""Advantages of stored trajectories, by any estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor
from verl import DataProto

# verl keeps the errors of its optional imports, and with them the frames in which it was imported first
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from docagent_rl.advantages import Discounts, Need
from docagent_rl.advantages.embedder import embedder_class
from docagent_rl.base.errors import UserError
from docagent_rl.config import AdvantageConfig
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.trainer.embedding import prefix_embeddings
from docagent_rl.training.trainer.estimators import known_estimators, our_estimator
from docagent_rl.training.trainer.inputs import advantage_inputs, rewarded_turns
from docagent_rl.training.trainer.texts import digest, trajectory_text

Embed = Callable[[Sequence[str]], Tensor]
"""`texts -> (n, d)`"""


class Crediting:
    """Advantages of the turns of stored trajectories by one configuration.

    `run` has the sections `algorithm` and `docagent`; `settings` is the latter's `advantage`.

    Raises:
        UserError: there is no such estimator.
    """

    def __init__(self, run: DictConfig, settings: AdvantageConfig) -> None:
        self._algorithm, self._settings = run.algorithm, settings
        if run.algorithm.get("adv_estimator") is not None:
            _check_name(str(run.algorithm.adv_estimator))
        self._embedder: Any | None = None

    @property
    def possible(self) -> bool:
        """True where an estimator is named, and trajectories hold what it needs."""
        name = self._algorithm.get("adv_estimator")
        if name is None:
            return False
        estimator = our_estimator(name)
        return str(name) != "gae" and (estimator is None or Need.VALUES not in estimator.needs)

    def turns(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Return the mean advantage of every turn (`turn_advantages`)."""
        return turn_advantages(trajectories, self._algorithm, self._settings, self._embed)

    def _embed(self, texts: Sequence[str]) -> Tensor:
        if self._embedder is None:
            self._embedder = embedder_class(self._settings.embedder)(self._settings.embedder)
        return torch.from_numpy(self._embedder.embed(texts).vectors.copy())


@dataclass(frozen=True, slots=True)
class Rows:
    """The sampled tokens of a step's trajectories, row after row.

    `keys` are verl's, `trajectories` the number of each row's; `turn_index` (b, s) is -1 behind a row's
    last token, `rewards` (b, s) has a turn's on its last token; `starts` are, by trajectory and turn, the
    row and the first and last token, None where nothing was sampled.
    """

    keys: list[str]
    trajectories: list[int]
    turn_index: Tensor
    rewards: Tensor
    starts: list[list[tuple[int, int, int] | None]]

    @classmethod
    def of(cls, trajectories: Sequence[TrajectoryDigest]) -> Rows:
        """Return the rows of trajectories with sampled tokens."""
        keys, owners, indexes, rewards = [], [], [], []
        starts: list[list[tuple[int, int, int] | None]] = []
        for number, trajectory in enumerate(trajectories):
            places: list[tuple[int, int, int] | None] = [None] * len(trajectory.turns)
            for row in sorted({turn.row for turn in trajectory.turns}):
                own = [turn for turn in trajectory.turns if turn.row == row]
                ends = list(accumulate(turn.sampled for turn in own))
                if not ends[-1]:
                    continue
                ordinals = [n for n, turn in enumerate(own) for _ in range(turn.sampled)]
                turn_rewards = np.zeros(ends[-1], dtype=np.float32)
                for turn, ordinal in rewarded_turns(trajectory.turns, row):
                    turn_rewards[ends[ordinal] - 1] += turn.reward
                numbers = [n for n, turn in enumerate(trajectory.turns) if turn.row == row]
                for turn, end, place in zip(own, ends, numbers, strict=True):
                    if turn.sampled:
                        places[place] = (len(keys), end - turn.sampled, end)
                keys.append(f"{trajectory.uid}_{trajectory.number}_{row}")
                owners.append(number)
                indexes.append(torch.tensor(ordinals))
                rewards.append(torch.from_numpy(turn_rewards))
            starts.append(places)
        return cls(keys, owners, _padded(indexes, -1), _padded(rewards, 0), starts)


def turn_advantages(
    trajectories: Sequence[Trajectory],
    algorithm: DictConfig,
    settings: AdvantageConfig,
    embed: Embed | None = None,
) -> list[list[float]]:
    """Return the mean advantage of every turn's tokens, by trajectory and turn; 0 where none was sampled.

    `trajectories` are those of one step, `algorithm` is verl's section, `embed` for estimators that compare.

    Raises:
        UserError: there is no such estimator, or it needs what was not stored.
    """
    name = str(algorithm.adv_estimator)
    _check_name(name)
    digests = [digest(each, settings.text) for each in trajectories]
    rows = Rows.of(digests)
    found = (
        _of_verl(name, rows, algorithm)
        if our_estimator(name) is None
        else _of_ours(name, digests, rows, algorithm, settings, embed)
    )
    return [
        [0.0 if place is None else float(found[place[0], place[1] : place[2]].mean()) for place in places]
        for places in rows.starts
    ]


def _check_name(name: str) -> None:
    if name not in known_estimators():
        raise UserError(f"algorithm.adv_estimator={name}: there are {', '.join(known_estimators())}")


def _of_ours(
    name: str,
    trajectories: Sequence[TrajectoryDigest],
    rows: Rows,
    algorithm: DictConfig,
    settings: AdvantageConfig,
    embed: Embed | None,
) -> Tensor:
    estimator = our_estimator(name)
    if estimator is None:
        raise UserError(f"algorithm.adv_estimator={name} is none of ours")
    if Need.VALUES in estimator.needs:
        raise UserError(f"algorithm.adv_estimator={name} needs a critic's values, and trajectories hold none")
    texts = [trajectory_text(each, settings.text) for each in _in_rows(trajectories, rows)]
    embeddings = prefixes = None
    if estimator.embeds and embed is None:
        raise UserError(
            f"algorithm.adv_estimator={name} compares trajectories by docagent.advantage.embedder"
        )
    if embed is not None and Need.EMBEDDINGS in estimator.needs:
        embeddings = embed(texts)
    if embed is not None and Need.PREFIXES in estimator.needs:
        ordered = _in_rows(trajectories, rows)
        prefixes = prefix_embeddings(ordered, settings.text, lambda given, _: embed(given), {})
    inputs = advantage_inputs(
        keys=rows.keys,
        trajectories=[trajectories[number] for number in rows.trajectories],
        token_rewards=rows.rewards,
        turn_index=rows.turn_index,
        values=None,
        discounts=Discounts(algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn),
        embeddings=embeddings,
        prefix_embeddings=prefixes,
        texts=texts,
    )
    return estimator.compute(inputs, settings.options).advantages


def _of_verl(name: str, rows: Rows, algorithm: DictConfig) -> Tensor:
    uids = np.array([key.rsplit("_", 2)[0] for key in rows.keys], dtype=object)
    data = DataProto.from_single_dict(
        {"response_mask": (rows.turn_index >= 0).long(), "token_level_rewards": rows.rewards, "uid": uids}
    )
    try:
        computed = compute_advantage_for_multi_trajectories(
            data,
            batch_keys=rows.keys,
            adv_estimator=name,
            gamma=algorithm.gamma,
            lam=algorithm.lam,
            norm_adv_by_std_in_grpo=algorithm.get("norm_adv_by_std_in_grpo", True),
            config=algorithm,
        )
    except KeyError as error:
        raise UserError(
            f"algorithm.adv_estimator={name} needs {error}, and trajectories hold none"
        ) from error
    return cast("Tensor", computed.batch["advantages"])


def _in_rows(trajectories: Sequence[TrajectoryDigest], rows: Rows) -> list[TrajectoryDigest]:
    """Return the trajectories that have rows, in the order of these."""
    return [trajectories[number] for number in dict.fromkeys(rows.trajectories)]


def _padded(rows: Sequence[Tensor], filler: float) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=filler)
