"""The trajectory as a reward function of the user's own is told of it."""

import json

from docagent_rl.base.errors import UserError
from docagent_rl.envs.checks import references
from docagent_rl.rewards.custom.signature import RewardCall
from docagent_rl.rollout.looks import answer_in
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


def reward_call(trajectory: Trajectory, sample: Sample) -> RewardCall:
    """Return what a reward function is told of a trajectory that has ended; takes tens of
    milliseconds.

    The solution is the answer that scores go by: where a system makes the answer of another model
    short, that short one. A trajectory without an answer has an empty solution.
    """
    # as it is written: nothing that the function changes reaches the trajectory
    record = json.loads(trajectory.to_json())
    return RewardCall(
        question_id=sample.question_id,
        data_source=sample.dataset,
        solution=answer_in(turn.record for turn in trajectory.turns) or "",
        ground_truth=ground_truth(sample),
        response_length=sum(turn.sampled for turn in trajectory.turns),
        extra_info={**record["sample"], "num_turns": len(trajectory.turns), "trajectory": record},
    )


def ground_truth(sample: Sample) -> str | list[str]:
    """Return the right answers in the form that judges take: one as a text, several or none as a
    list.
    """
    try:
        answers = references(sample)
    except UserError:  # a test set that hides its answers
        answers = ()
    return answers[0] if len(answers) == 1 else list(answers)
