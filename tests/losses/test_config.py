"""The sections `docagent.kl` and `docagent.loss` together with the rest of a configuration."""

import copy
import functools
import pickle

import pytest
from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.losses.config import KlConfig, KlPlace, KlScope, KlType, check_kl
from docagent_rl.training.settings.keys import reference

ON = {"observation": {"coef": 0.01}}
EXACT = {"observation": {"coef": 0.01, "type": "exact"}}
FSDP2 = ("actor_rollout_ref.actor.use_kl_loss=true", "actor_rollout_ref.actor.strategy=fsdp2")


@functools.cache
def _plain() -> bytes:
    return pickle.dumps(OmegaConf.create(dict(reference())))


def run(*changes: str) -> DictConfig:
    """Return verl's own configuration with a few keys changed."""
    config = pickle.loads(_plain())
    config.merge_with_dotlist(list(changes))
    return config


def kl(section: dict) -> KlConfig:
    return KlConfig.model_validate(section)


def test_off_by_default():
    assert not KlConfig().enabled
    check_kl(KlConfig(), run())


def test_defaults_are_the_papers():
    observation = kl(ON).observation
    assert (observation.scope, observation.at, observation.type) == (
        KlScope.ALL,
        KlPlace.LABEL,
        KlType.K3,
    )
    assert (observation.token_chunk, observation.vocabulary_chunk) == (1024, 8192)
    assert (
        kl({"observation": {"token_chunk": 1, "vocabulary_chunk": 1}}).observation.token_chunk == 1
    )


@pytest.mark.parametrize(
    "section",
    [
        {"generated": {"coef": 0.001}},
        {"observation": {"coef": -1}},
        {"observation": {"coef": "inf"}},
        {"observation": {"type": "low_var_kl"}},
        {"observation": {"token_chunk": 0}},
        {"observation": {"vocabulary_chunk": 0}},
    ],
)
def test_refused(section):
    with pytest.raises(ValidationError):
        kl(section)


def test_a_reference_model_must_run():
    with pytest.raises(UserError, match=r"actor\.use_kl_loss=true"):
        check_kl(kl(ON), run())
    check_kl(kl(ON), run("actor_rollout_ref.actor.use_kl_loss=true"))
    check_kl(kl(ON), run("algorithm.use_kl_in_reward=true"))


def test_not_with_distillation():
    with pytest.raises(UserError, match="distillation"):
        check_kl(kl(ON), run(*FSDP2, "distillation.enabled=true"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("actor_rollout_ref.actor.strategy=fsdp", r"actor\.strategy is fsdp"),
        ("actor_rollout_ref.ref.strategy=megatron", r"ref\.strategy is megatron"),
        (
            "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2",
            r"ref\.ulysses_sequence_parallel_size",
        ),
        ("actor_rollout_ref.ref.fsdp_config.ulysses_sequence_parallel_size=2", "whole rows"),
        ("actor_rollout_ref.model.lora_rank=1", "LoRA"),
        ("actor_rollout_ref.model.lora.rank=8", "LoRA"),
        ("actor_rollout_ref.model.lora_adapter_path=adapters", "LoRA"),
        ("trainer.v1.trainer_mode=docagent_separate_async", "the same worker"),
    ],
)
def test_exact_needs_an_engine_that_serves_it(change, message):
    check_kl(kl(EXACT), run(*FSDP2))
    check_kl(kl(ON), run(*FSDP2, change))
    with pytest.raises(UserError, match=message):
        check_kl(kl(EXACT), run(*FSDP2, change))


RECIPE = "mm_doc_r1_qwen3_8b"
EQ1 = "+ablations=mm_doc_r1/eq1_loss"
VERLS_GRPO = "algorithm.adv_estimator=grpo docagent.advantage.options=null"


def test_the_ablation_is_what_eq_1_says():
    config = composed_recipe(RECIPE, [EQ1])
    assert check_statically(config).loss.aggregation.value == "trajectory"
    assert config.actor_rollout_ref.actor.clip_ratio_c > 1e6
    assert composed_recipe(RECIPE).docagent.loss.aggregation == "verl"


@pytest.fixture(scope="module")
def averaged():
    """Return copies of a recipe whose loss is averaged by trajectory."""
    config = composed_recipe("mm_doc_r1_qwen3_8b_grpo", [EQ1])
    return lambda: copy.deepcopy(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "actor_rollout_ref.actor.loss_agg_mode=token-mean",
            "loss_agg_mode is token-mean: set it to token-sum",
        ),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=gspo", "loss_mode is gspo"),
        ("docagent.kl.observation.coef=0.1", "docagent.kl.observation is averaged differently"),
        ("algorithm.rollout_correction.bypass_mode=true", "bypass_mode"),
        ("distillation.enabled=true", "distillation"),
        ("critic.enable=true", r"critic\.loss_agg_mode is token-sum"),
        (f"trainer.v1.trainer_mode=sync {VERLS_GRPO}", "trainer_mode is sync"),
    ],
)
def test_losses_that_cannot_be_averaged_by_trajectory_are_refused(averaged, change, message):
    config = averaged()
    config.merge_with_dotlist(change.split())
    with pytest.raises(UserError, match=message):
        check_statically(config)


def test_a_mean_over_turns_goes_together_with_the_kl_on_observations():
    config = composed_recipe("alden_qwen2_5_vl_7b", ["+ablations=alden/literal"])
    assert check_statically(config).loss.aggregation.value == "turn"
    assert config.docagent.kl.observation.coef > 0
    config.merge_with_dotlist(["actor_rollout_ref.actor.loss_agg_mode=token-mean"])
    with pytest.raises(
        UserError, match=r"(?s)turn does not work.*set it to seq-mean-token-mean"
    ) as e:
        check_statically(config)
    assert "critic" not in str(e.value)
