"""verl's separate trainer without servers on the trainer's GPUs."""

import inspect
import logging

import pytest
from verl.trainer.ppo.v1 import trainer_separate_async as separate

from docagent_rl.patches.log_without_flush import WithoutFlush


def test_its_log_takes_flush_which_upstream_still_says(caplog):
    assert "flush=True" in inspect.getsource(separate.PPOTrainerSeparateAsync._setup)
    assert isinstance(separate.logger, WithoutFlush)
    with caplog.at_level(logging.INFO, logger=separate.__name__):
        separate.logger.info("replicas: %d", 2, flush=True)
        with pytest.raises(TypeError, match="flush"):
            separate.logger.logger.info("replicas: %d", 2, flush=True)
    assert caplog.messages == ["replicas: 2"]
