"""What a step's rows were credited with, token by token, out of the columns that the trainer has read."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from docagent_rl.advantages.similarity import cosines
from docagent_rl.rollout.credit import SIMILARITIES, CreditRow
from docagent_rl.training.trainer.columns import SampledColumns

ENTROPY, REFERENCE = "entropy", "ref_log_prob"
"""Fields of verl that are there in some runs alone."""
_POLICY = "old_log_probs"
_PLAIN = ("advantages", "returns", "values", ENTROPY)

logger = logging.getLogger(__name__)


Likeness = Mapping[tuple[str, int], NDArray[np.float32]]
"""By group and number of a trajectory: its cosines with the trajectories of its group, in order of their
numbers.
"""


def group_likeness(keys: Sequence[str], embeddings: Tensor) -> Likeness:
    """How like each other the trajectories of a group are, as estimators that compare them see it.

    Args:
        keys: of the rows, verl's `{uid}_{trajectory}_{index}`.
        embeddings: (s, d), one vector a trajectory, in the order in which the rows name them first.
    """
    names = list(
        dict.fromkeys((uid, int(trajectory)) for uid, trajectory, _ in (k.rsplit("_", 2) for k in keys))
    )
    groups: dict[str, list[int]] = defaultdict(list)
    for place, (uid, _) in enumerate(names):
        groups[uid].append(place)
    found: dict[tuple[str, int], NDArray[np.float32]] = {}
    for places in groups.values():
        ordered = sorted(places, key=lambda place: names[place][1])
        similar, _ = cosines(embeddings[ordered].detach().float()[None])
        for own, place in enumerate(ordered):
            found[names[place]] = similar[0, own].numpy().astype(np.float32)
    return found


def credit_rows(
    keys: Sequence[str], columns: SampledColumns, likeness: Likeness | None = None
) -> list[CreditRow]:
    """Rows for the credit file.

    The KL of a token is that of its sample: the log-prob of the policy less that of the reference (k1).

    Args:
        keys: verl's `{uid}_{trajectory}_{index}` of each row.
        columns: `advantages`, and what there is of the others, at the sampled tokens.
        likeness: of the trajectories, which stands in the first row of each.
    """
    lists = {name: columns.split(name) for name in _PLAIN if name in columns.values}
    if _POLICY in columns.values and REFERENCE in columns.values:
        pairs = zip(columns.split(_POLICY), columns.split(REFERENCE), strict=True)
        lists["kl"] = [ours - theirs for ours, theirs in pairs]
    rows = []
    for place, key in enumerate(keys):
        uid, trajectory, index = key.rsplit("_", 2)
        own = {name: values[place].float().numpy().astype(np.float32) for name, values in lists.items()}
        if likeness is not None and index == "0" and (uid, int(trajectory)) in likeness:
            own[SIMILARITIES] = likeness[uid, int(trajectory)]
        rows.append(CreditRow(uid, int(trajectory), int(index), own))
    return rows


def with_optional(
    columns: SampledColumns, keys: Sequence[str], partition_id: str, names: Sequence[str]
) -> SampledColumns:
    """The columns with further fields of the queue; one that cannot be had is left out, and no run ends."""
    for name in names:
        try:
            columns = columns.fetching(keys, partition_id, [name])
        except (KeyError, RuntimeError, ValueError) as error:
            logger.warning("the credit of this step is stored without %s: %s", name, error)
    return columns
