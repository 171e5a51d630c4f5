"""A custom reward function with verl's signature, which rewards right words and few turns.

PYTHONPATH=examples python -m verl.trainer.main_ppo \
    --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    reward.custom_reward_function.path=pkg://custom_reward docagent.reward_function.weight=0.5 \
    +reward.custom_reward_function.reward_kwargs.most_turns=6

A file works too: reward.custom_reward_function.path=examples/custom_reward.py. The function is
called once for each trajectory, at its end; docs/extending.md describes its arguments, and how to
use a function that was written for EasyR1.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | Sequence[str],
    extra_info: Mapping[str, Any],
    most_turns: int = 8,
) -> dict[str, float]:
    """Return the reward of a trajectory as `score`; the other numbers are logged with it.

    Args:
        data_source: the name of the data set.
        solution_str: the final answer; empty if there is none.
        ground_truth: a right answer, or a list if several are right.
        extra_info: the fields of the sample, and as `trajectory` the whole trajectory.
        most_turns: the number of turns at which nothing is left of the reward for few turns; an
            argument of our own, which `reward_kwargs` sets.
    """
    right_answers = [ground_truth] if isinstance(ground_truth, str) else ground_truth
    overlap = max((word_f1(solution_str, answer) for answer in right_answers), default=0.0)

    turns = extra_info["trajectory"]["turns"]
    brevity = max(0.0, 1 - len(turns) / most_turns)
    searches = sum(len(turn["searches"]) for turn in turns)

    return {
        "score": 0.9 * overlap + 0.1 * brevity,
        "overlap": overlap,
        "brevity": brevity,
        "searches": searches,
    }


def word_f1(answer: str, reference: str) -> float:
    """Return the F1 of the words of two texts, in [0, 1]: 2 * common / (all of both)."""
    answer_words = Counter(answer.lower().split())
    reference_words = Counter(reference.lower().split())

    # a word counts as often as it is in both
    common = (answer_words & reference_words).total()
    both = answer_words.total() + reference_words.total()
    return 2 * common / both if common else 0.0
