"""A custom reward function with verl's signature, which rewards right words and few turns.

PYTHONPATH=examples python -m verl.trainer.main_ppo \
    --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    reward.custom_reward_function.path=pkg://custom_reward docagent.reward_function.weight=0.5 \
    +reward.custom_reward_function.reward_kwargs.most_turns=6

A file works too: reward.custom_reward_function.path=examples/custom_reward.py. The function is
called once for each trajectory, at its end; docs/extending.md describes its arguments, and how to
use a function that was written for EasyR1.
"""


def compute_score(data_source, solution_str, ground_truth, extra_info, most_turns=8):
    """Return the reward as `score`; the other numbers are logged with it.

    `solution_str` is the final answer; `ground_truth` is a text, or a list if several answers
    are right.
    """
    answers = [ground_truth] if isinstance(ground_truth, str) else ground_truth
    overlap = max((word_f1(solution_str, answer) for answer in answers), default=0.0)
    turns = extra_info["trajectory"]["turns"]
    searches = sum(len(turn["searches"]) for turn in turns)
    brevity = max(0.0, 1 - len(turns) / most_turns)
    return {
        "score": 0.9 * overlap + 0.1 * brevity,
        "overlap": overlap,
        "brevity": brevity,
        "searches": searches,
    }


def word_f1(answer, reference):
    """Return the F1 of two texts in [0, 1]: the harmonic mean of their shares of common words."""
    ours = answer.lower().split()
    theirs = reference.lower().split()
    common = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0
