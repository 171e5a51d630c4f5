from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.trainer.rejection import may_reject


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        (None, False),
        ({}, False),
        ({"rollout_rs": None}, False),
        ({"rollout_rs": "token_k1"}, True),
        ({"rollout_rs": "token_k1", "bypass_mode": True}, False),
    ],
)
def test_when_verl_edits_the_mask(correction, expected):
    assert may_reject(OmegaConf.create({"algorithm": {"rollout_correction": correction}})) is expected
    assert not may_reject(OmegaConf.create({"algorithm": {}}))
