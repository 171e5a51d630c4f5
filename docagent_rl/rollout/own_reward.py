"""The arguments with which a user's reward function is called for a trajectory."""

import json

from docagent_rl.base.errors import UserError
from docagent_rl.envs.checks import references
from docagent_rl.rewards.custom.signature import RewardCall
from docagent_rl.rollout.seen_pages import answer_in
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


def reward_call(trajectory: Trajectory, sample: Sample) -> RewardCall:
    """Return the arguments of a reward function for a finished trajectory; takes tens of ms.

    The solution is the answer that is scored: if the system extracts a short answer from another
    model's answer, it is the short one. Without an answer, the solution is empty.
    """
    # pass a serialised copy, so that the function cannot change the trajectory
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
    """Return the right answers as judges expect them: a single one as a text, else as a list."""
    try:
        answers = references(sample)
    except UserError:  # the test set hides its answers
        answers = ()
    return answers[0] if len(answers) == 1 else list(answers)
