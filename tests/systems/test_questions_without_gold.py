"""Benchmarks that name no evidence (UDA, hidden test sets) are played in validation and evaluation."""

from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.rewards.judge import JudgeConfig
from docagent_rl.rewards.judges import make_judge
from docagent_rl.systems import get_system


@pytest.mark.parametrize(
    "recipe", ["vrag_rl_qwen2_5_vl_7b", "unidoc_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b"]
)
def test_they_are_refused_in_training_alone(world, recipe):
    section = OmegaConf.to_container(composed(recipe).docagent, resolve=False)
    system = get_system(section["system"])
    services = EnvServices(world.store, RetrieverService(world.retriever), judge=make_judge(JudgeConfig()))
    question = replace(world.records[0], evidence_pages=(), evidence_boxes={}, evidence_sources=())
    trained, validated = (
        system.make_env(section["env"], services, validate=validate) for validate in (False, True)
    )
    with pytest.raises(UserError, match="has no gold pages"):
        trained.opening(question)
    assert validated.opening(question).messages
