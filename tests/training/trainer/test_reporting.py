"""Stages of the trainer's start are recognised by verl's own lines."""

import inspect
import logging

from verl.trainer.ppo.v1 import trainer_base

from docagent_rl.training.trainer import reporting
from docagent_rl.training.trainer.reporting import STAGES, VERL_LOG


def test_verl_still_says_where_its_start_is():
    source = inspect.getsource(trainer_base.PPOTrainer._setup)
    places = [source.index(beginning) for beginning in STAGES]
    assert places == sorted(places)
    assert trainer_base.__name__ == VERL_LOG


def test_each_of_its_lines_begins_a_stage(monkeypatch):
    named = []
    monkeypatch.setattr(reporting, "report_stage", named.append)
    logger = logging.getLogger(VERL_LOG)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with reporting._listening(VERL_LOG, reporting._Stages(logging.INFO)):
            for beginning in STAGES:
                logger.info("%s: {}", beginning)
            logger.info("something else")
        logger.info(next(iter(STAGES)))
    finally:
        logger.setLevel(before)
    assert named == list(STAGES.values())
