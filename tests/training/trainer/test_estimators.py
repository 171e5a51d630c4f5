"""verl's estimators and a group of which masking leaves one trajectory."""

import inspect

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

from docagent_rl.advantages import registered_estimators
from docagent_rl.training.trainer.estimators import alone_in_group

VERLS = sorted(ADV_ESTIMATOR_REGISTRY.keys() - registered_estimators().keys())
MATES = [0.5, 1.0, 0.0]


def advantage(name: str, reward: float) -> float:
    """Return the advantage of the trajectory that is alone in its group, beside a whole group."""
    function, ones = ADV_ESTIMATOR_REGISTRY[name], torch.ones(1 + len(MATES), 2)
    given = {
        "token_level_rewards": torch.tensor([[0.0, each] for each in [reward, *MATES]]),
        "response_mask": ones,
        "index": np.array(["alone", *["whole"] * len(MATES)], dtype=object),
        "config": OmegaConf.create({}),
        "old_log_probs": -ones,
        "sum_pi_squared": ones / 2,
    }
    known = inspect.signature(function).parameters
    return float(function(**{key: value for key, value in given.items() if key in known})[0][0, 1])


@pytest.mark.parametrize("name", VERLS)
def test_who_gives_it_what_it_earned_is_known(name):
    if "index" not in inspect.signature(ADV_ESTIMATOR_REGISTRY[name]).parameters:
        assert alone_in_group(name) is None  # compares nothing
        return
    try:
        zero = advantage(name, 0.154) == advantage(name, 0.9)
    except ValueError:
        zero = False
    assert (alone_in_group(name) is None) is zero
