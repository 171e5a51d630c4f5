"""Numbers of the turns of a batch, whichever estimator it went through."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict import TensorDict

from docagent_rl.advantages.inputs import Advantages, Discounts
from docagent_rl.advantages.turn_metrics import turn_metrics
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.trainer.inputs import advantage_inputs


def turn_report(
    keys: Sequence[str], trajectories: Sequence[Trajectory], data: TensorDict
) -> dict[str, float]:
    """See `turn_metrics`.

    Args:
        keys: verl's key of each of the `b` rows.
        trajectories: the record of each row's session.
        data: of b rows, nested: `response_mask`, `turn_index`, `rm_scores`, `advantages`, `returns`, and
            `values` where there is a critic.
    """
    padded = {name: data[name].to_padded_tensor(padding=0.0) for name in ("advantages", "returns")}
    mask = data["response_mask"].to_padded_tensor(padding=0)
    inputs = advantage_inputs(
        keys=keys,
        trajectories=trajectories,
        # a rejection of single tokens may have masked a token with a reward
        token_rewards=data["rm_scores"].to_padded_tensor(padding=0.0) * (mask != 0),
        mask=mask,
        turn_index=data["turn_index"].to_padded_tensor(padding=-1),
        values=data["values"].to_padded_tensor(padding=0.0) if "values" in data.keys() else None,  # noqa: SIM118
        discounts=Discounts(),
    )
    return turn_metrics(inputs, Advantages(**padded))
