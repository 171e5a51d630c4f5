"""What a run's recipe, system and model say of its sizes and its keys, before verl sees them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from transformers import Qwen3Config

from docagent_rl.base.errors import UserError
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.settings import server_cache as cache
from docagent_rl.training.settings.architectures import KNOWN, known_model, model_config
from docagent_rl.training.settings.arithmetic import arithmetic_problems, read_layout
from docagent_rl.training.settings.assertions import assertion_problems
from docagent_rl.training.settings.keys import reference, unknown_keys

VRAG, ALDEN, MM_DOC = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
GIB = 1 << 30
PUBLISHED = {
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-4B": 4_022_468_096,
}
"""Parameters, as the checkpoints' files count them."""


@pytest.mark.parametrize("name", KNOWN)
def test_models_have_as_many_parameters_as_their_checkpoints(name):
    model = known_model(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert known_model("somebody/model") is None  # left to the hub


def test_a_folder_says_what_its_model_is(tmp_path):
    Qwen3Config(hidden_size=64).save_pretrained(tmp_path)
    assert model_config(str(tmp_path)).hidden_size == 64


def test_rows_that_fill_no_mini_batch_are_refused_with_what_to_set(recipe):
    (problem,) = arithmetic_problems(recipe(VRAG, "data.train_batch_size=24", cpu=False))
    assert "data.train_batch_size=32" in problem


def test_systems_with_several_rows(recipe):
    assert [name for name in SYSTEMS if get_system(name).several_rows] == ["mm_doc_r1"]
    run = recipe(VRAG)
    for system, several in (("mm_doc_r1", True), (None, False)):
        run.docagent.system = system
        assert read_layout(run).several_rows is several
    run.docagent.system = "vrag"
    with pytest.raises(UserError, match="'vrag'"):
        read_layout(run)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"{ROLLOUT}.log_prob_use_dynamic_bsz=false"], f"{ACTOR}.use_dynamic_bsz=true"),
        (["critic.use_dynamic_bsz=false", "critic.ppo_micro_batch_size_per_gpu=null"], "critic: [critic]"),
        ([f"{ROLLOUT}.tensor_model_parallel_size=8"], "28 heads"),
        ([f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=8"], "28 heads"),
        ([f"{ACTOR}.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=Qwen9Layer"], "Qwen9Layer"),
    ],
)
def test_what_verl_would_say_minutes_later(recipe, values, message):
    (problem,) = assertion_problems(recipe(ALDEN, *values, cpu=False))
    assert message in problem


def test_unknown_keys_are_named_with_the_nearest_known_one():
    config = {"trainer": {"sav_freq": 1}, "dta": {}, "actor_rollout_ref": {"ref": {"strateg": 1}}}
    nearest = ("trainer.save_freq", "data", "actor_rollout_ref.ref.strategy")
    keys = ("trainer.sav_freq", "dta", "actor_rollout_ref.ref.strateg")
    for line, key, known in zip(unknown_keys(config), keys, nearest, strict=True):
        assert line.startswith(f"{key}: ")
        assert known in line


def test_verls_own_fields_of_its_dataclasses_and_free_sections_are_known():
    """`agent_loop_manager_class` is a field of verl's AgentLoopConfig that its YAML leaves out."""
    assert unknown_keys(reference()) == []
    agent, vllm = {"agent_loop_manager_class": "x"}, {"seed": 1}
    rollout = {"agent": agent, "engine_kwargs": {"vllm": vllm}}
    config = {"docagent": {"anything": 1}, "ray_kwargs": {"ray_init": {"num_gpus": 1}}}
    assert unknown_keys({**config, "actor_rollout_ref": {"rollout": rollout}}) == []


@pytest.mark.parametrize(
    ("tokens", "memory", "expected"),
    [
        (1_900_000, 2000 * GIB // 8, 21.74),  # what the trajectories show
        (1_900_000, 1000 * GIB // 8, 12.5),  # a tenth of the memory, shared by eight
        (4000, 1000 * GIB // 8, cache.LEAST_GIB),
        (1_900_000, 8 * GIB, cache.LEAST_GIB),
    ],
)
def test_caches_of_servers_by_hand(tokens, memory, expected):
    assert cache.TOKEN_BYTES == 12_288
    assert cache.cache_gib(tokens, memory) == expected


def test_a_cache_that_is_set_stays_text_needs_none_and_servers_share_a_node(recipe, monkeypatch):
    monkeypatch.setattr(cache.psutil, "virtual_memory", lambda: SimpleNamespace(total=400 * GIB))

    def sized(name, image_tokens, *values, cpu=True):
        run = recipe(name, *values, cpu=cpu)
        cache.size_server_cache(run, image_tokens)
        return OmegaConf.select(run, cache.KEY)

    assert sized(VRAG, 10_000, f"{cache.KEY}=1.5") == 1.5
    assert sized(MM_DOC, 0, cpu=False) is None
    # 160 trajectories on 4 servers of one node
    assert sized(VRAG, 10_000, cpu=False) == 4.58
    assert sized(VRAG, 100_000, cpu=False) == 10
    # 8 on two nodes
    assert sized(VRAG, 100_000, "trainer.nnodes=2", "data.train_batch_size=64", cpu=False) == 10
