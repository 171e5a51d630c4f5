"""Sizes and keys of a run are checked against its recipe, system and model before verl sees
them.
"""

import re

import pytest

from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.training.settings import arithmetic
from docagent_rl.training.settings.arithmetic import (
    head_problems,
    size_problems,
    verls_problems,
)

VRAG, ALDEN, MM_DOC = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b"
ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))


def test_rows_that_fill_no_mini_batch_are_refused_with_what_to_set(recipe):
    (problem,) = size_problems(recipe(VRAG, "data.train_batch_size=24", cpu=False))
    assert "data.train_batch_size=32" in problem


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"{ROLLOUT}.log_prob_use_dynamic_bsz=false"], f"{ACTOR}.use_dynamic_bsz=true"),
        ([f"{ROLLOUT}.tensor_model_parallel_size=8"], "28 attention heads"),
        ([f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=8"], "28 attention heads"),
    ],
)
def test_what_verl_would_say_minutes_later(recipe, values, message):
    run = recipe(ALDEN, *values, cpu=False)
    (problem,) = [*size_problems(run), *head_problems(run)]
    assert message in problem


@pytest.fixture
def gemma4(tmp_path):
    """Return a folder with the configuration of a tiny Gemma 4, whose logits have a cap."""
    config = tiny_config(build_tokenizer([]), "gemma4")
    config.text_config.global_head_dim = 512  # as released
    config.save_pretrained(tmp_path)
    return f"{MODEL}.path={tmp_path}"


@pytest.mark.parametrize(
    ("values", "cpu", "words"),
    [
        (["use_fused_kernels=true"], True, ["ignores the model's cap on logits"]),
        (["use_fused_kernels=false"], True, []),
        (
            ["use_fused_kernels=false"],
            False,
            ["supports head sizes up to 256, but the model's is 512"],
        ),
        (["use_fused_kernels=false", "override_config.attn_implementation=sdpa"], False, []),
    ],
)
def test_a_model_whose_rows_no_kernel_lays_out_so_is_refused(
    recipe, gemma4, monkeypatch, values, cpu, words
):
    monkeypatch.setattr(arithmetic, "is_cpu_platform", lambda: cpu)
    run = recipe(VRAG, gemma4, *(f"{MODEL}.{value}" for value in values), cpu=False)
    problems = list(head_problems(run))
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [f"{ACTOR}.use_dynamic_bsz=false", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=null"],
            "log_prob_micro_batch_size_per_gpu",
        ),
        ([f"{ACTOR}.loss_agg_mode=mean"], "loss_agg_mode"),
        (
            [f"{ACTOR}.use_dynamic_bsz=false", "trainer.n_gpus_per_node=7"],
            r"real_train_batch_size \(16\)",
        ),
    ],
)
def test_what_verl_refuses_is_one_message(recipe, values, message, capsys):
    (problem,) = verls_problems(recipe(VRAG, *values))
    assert re.search(message, problem)
    assert capsys.readouterr().out == ""
