"""Keys that contradict each other are named with what to set; recipes have none."""

import pytest

from docagent_rl.training.settings.combinations import (
    combination_problems,
    precision_problems,
    strategy_problems,
)

VRAG, ALDEN, TEXT = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_4b"
ROLLOUT, ACTOR, MODEL = (f"actor_rollout_ref.{part}" for part in ("rollout", "actor", "model"))
SEQUENCES = "ulysses_sequence_parallel_size"
FLOAT32 = ("mixed_precision.param_dtype=fp32", "mixed_precision.reduce_dtype=fp32")


def problems(recipe, *changes, name=VRAG, cpu=False) -> list[str]:
    return list(combination_problems(recipe(name, *changes, cpu=cpu)))


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("name", [VRAG, ALDEN, TEXT, "vrag_rl_qwen3_5_9b"])
def test_recipes_have_none(recipe, name, cpu):
    assert problems(recipe, name=name, cpu=cpu) == []


ONE = {
    f"{ACTOR}.fsdp_config.dtype=float32": "mixed_precision.param_dtype, here bf16",
    f"{ROLLOUT}.val_kwargs.temperature=0.5": "set the temperature to 0, or do_sample=true",
    f"{ROLLOUT}.val_kwargs.do_sample=true": "set a temperature above 0",
    f"{ACTOR}.entropy_checkpointing=true {ACTOR}.fsdp_config.entropy_checkpointing=false": (
        "use_fused_kernels"
    ),
    "algorithm.rollout_correction.bypass_mode=true "
    "algorithm.rollout_correction.rollout_rs=token_k1": ("set bypass_mode=false"),
    f"algorithm.rollout_correction.bypass_mode=true {ROLLOUT}.calculate_log_probs=false": (
        "set actor_rollout_ref.rollout.calculate_log_probs=true"
    ),
    f"algorithm.filter_groups.enable=true {ROLLOUT}.n=1": "nothing to compare",
    f"{ROLLOUT}.quantization=fp8": "num_hidden_layers",
    f"{ROLLOUT}.quantization=int4": "verl only supports fp8, torchao, ascend",
    "trainer.val_only=true trainer.val_before_train=false": "the run would train",
    "trainer.resume_from_path=/runs/global_step_3": "set trainer.resume_mode=resume_path",
}


@pytest.mark.parametrize("changes", ONE)
def test_each_is_one_sentence_with_what_to_do(recipe, changes):
    (problem,) = problems(recipe, *changes.split())
    assert problem.startswith(changes.split()[0].partition("=")[0].rpartition(".")[0])
    assert ONE[changes] in problem


TOGETHER = (
    (f"{ROLLOUT}.val_kwargs.temperature=0.5", f"{ROLLOUT}.val_kwargs.do_sample=true"),
    (f"{ACTOR}.entropy_checkpointing=true", f"{MODEL}.use_fused_kernels=false"),
    ("algorithm.rollout_correction.bypass_mode=true",),
    ("algorithm.rollout_correction.rollout_rs=token_k1",),
    ("algorithm.filter_groups.enable=true",),
    ("trainer.val_only=true",),
    ("trainer.resume_from_path=/runs/global_step_3", "trainer.resume_mode=resume_path"),
    (f"{ACTOR}.fsdp_config.dtype=float32", *(f"{ACTOR}.fsdp_config.{each}" for each in FLOAT32)),
)


@pytest.mark.parametrize("changes", TOGETHER)
def test_what_goes_together_is_not_named(recipe, changes):
    assert problems(recipe, *changes) == []


def test_fp8_depends_on_the_model(recipe):
    """Qwen3's configuration has the number of its layers where verl looks for it."""
    chosen = f"{ROLLOUT}.quantization=fp8"
    assert problems(recipe, chosen, name=TEXT) == []
    for name in (VRAG, "vrag_rl_qwen3_vl_4b", "vrag_rl_qwen3_5_9b"):
        (problem,) = problems(recipe, chosen, name=name)
        assert problem.startswith(f"{ROLLOUT}.quantization=fp8: verl expects num_hidden_layers")
    assert problems(recipe, chosen, f"{MODEL}.path=a-lab/a-model-of-the-hub") == []
    (problem,) = problems(recipe, chosen, name=TEXT, cpu=True)
    assert "cannot be updated on a CPU" in problem


def test_rows_of_delta_layers_are_not_shared(recipe):
    changes = [
        f"{ACTOR}.{SEQUENCES}=2",
        f"{ACTOR}.fsdp_config.{SEQUENCES}=2",
        f"critic.fsdp.{SEQUENCES}=2",
    ]
    found = problems(recipe, *changes, name="vrag_rl_qwen3_5_9b")
    named = {problem.partition("=")[0] for problem in found}
    assert {change.partition("=")[0] for change in changes} <= named
    assert all("qwen3_5" in problem and "set it to 1" in problem for problem in found)
    assert problems(recipe, *changes) == []


def test_the_precision_of_the_supervised_engine(recipe):
    name = "sft_vrag_rl_qwen2_5_vl_3b"
    assert list(precision_problems(recipe(name, cpu=False), "engine")) == []
    (problem,) = precision_problems(recipe(name, "engine.dtype=float32", cpu=False), "engine")
    assert "+engine.mixed_precision={param_dtype: float32" in problem
    half = recipe(
        name, "engine.dtype=float16", "engine.mixed_precision.param_dtype=fp16", cpu=False
    )
    assert list(precision_problems(half, "engine")) == []
    assert list(precision_problems(half, "critic.fsdp")) == []  # which it does not have


def test_engines_are_those_of_fsdp(recipe):
    (actor, ref) = strategy_problems(
        recipe(VRAG, f"{ACTOR}.strategy=megatron", cpu=False)
    )  # the reference follows
    assert actor.startswith(f"{ACTOR}.strategy=megatron: it must be fsdp or fsdp2")
    assert ref.startswith("actor_rollout_ref.ref.strategy=megatron")
    critic = "critic.strategy=veomni"
    assert list(strategy_problems(recipe(VRAG, critic, cpu=False))) == []  # there is none
    (problem,) = strategy_problems(recipe(ALDEN, critic, cpu=False))
    assert problem.startswith(critic)
    for strategy in ("fsdp", "fsdp2"):
        assert (
            list(strategy_problems(recipe(ALDEN, f"{ACTOR}.strategy={strategy}", cpu=False))) == []
        )
