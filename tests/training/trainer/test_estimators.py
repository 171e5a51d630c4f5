from __future__ import annotations

import pytest
import torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from docagent_rl.advantages import Advantages
from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.errors import UserError
from docagent_rl.training.trainer import estimators


def test_the_bound_computation_runs_where_verl_calls():
    estimators.install_estimators()
    rewards, mask = torch.ones(1, 2, dtype=torch.bfloat16), torch.ones(1, 2)
    bridge = get_adv_estimator_fn("spo")
    with estimators.computing(lambda r, m: Advantages((r * 2).float(), r.float())):
        advantages, returns = bridge(token_level_rewards=rewards, response_mask=mask, config=None, index=[1])
    assert advantages.tolist() == [[2, 2]]
    assert advantages.dtype == returns.dtype == torch.bfloat16
    with pytest.raises(UserError):
        bridge(token_level_rewards=rewards, response_mask=mask)


def test_names_that_are_taken_and_modules_that_are_not_there(monkeypatch):
    monkeypatch.setitem(_ESTIMATORS, "rloo", estimators.our_estimator("spo"))
    with pytest.raises(UserError, match="rloo"):
        estimators.install_estimators()
    estimators.load_modules(["json"])
    with pytest.raises(UserError, match=r"docagent\.modules: no_such_module"):
        estimators.load_modules(["no_such_module"])
