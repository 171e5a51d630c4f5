"""The CPU profile changes sizes and places of a recipe, and what a CPU cannot do, each with a
reason.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.tiny.model import build_tiny_model

RECIPES = (
    "alden_qwen2_5_vl_7b",
    "doc_v_star_qwen3_5_9b",
    "mm_doc_r1_qwen3_8b_grpo",
    "vrag_rl_qwen3_vl_4b",
)
SFT_RECIPE = "sft_vrag_rl_qwen2_5_vl_7b"

POLICY, ENGINE, ROLLOUT = (
    f"actor_rollout_ref.{part}" for part in ("actor", "actor.fsdp_config", "rollout")
)
SIZES = {
    "data": "train_batch_size val_batch_size val_max_samples max_prompt_length max_response_length "
    "max_length",
    POLICY: "ppo_mini_batch_size ppo_max_token_len_per_gpu optim.lr",
    ROLLOUT: "n max_model_len max_num_seqs checkpoint_engine.update_weights_bucket_megabytes",
    f"{ROLLOUT}.engine_kwargs.vllm": "limit_mm_per_prompt.image.count "
    "limit_mm_per_prompt.image.height "
    "limit_mm_per_prompt.image.width skip_mm_profiling",
    "trainer": "save_freq test_freq total_epochs total_training_steps",
    "optim": "lr lr_warmup_steps_ratio",
}
PLACES = {
    "data": "dataloader_num_workers num_workers",
    "actor_rollout_ref": "model.path rollout.agent.num_workers rollout.tensor_model_parallel_size "
    "rollout.engine_kwargs.vllm.distributed_executor_backend",
    "critic": "model.path",
    "model": "path",
    "reward": "num_workers",
    "transfer_queue": "backend.SimpleStorage.num_data_storage_units",
    "trainer": "device nnodes n_gpus_per_node",
}
OF_ANY_VALUE = ("docagent.", "ray_kwargs.ray_init.")
"""Sections of services, memory and places: ours, and Ray's own."""


def log_probs_in(dtype: torch.dtype, path: Path) -> torch.Tensor:
    """Return the log-probs of a row's tokens, computed in a type of numbers."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
    ids = torch.arange(100, 160)[None]
    with torch.no_grad():
        return model(ids).logits.float().log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])


def bfloat16_rounds(tmp_path) -> bool:
    path = build_tiny_model(tmp_path / "model", family="qwen3")
    exact, rounded = (log_probs_in(dtype, path) for dtype in (torch.float32, torch.bfloat16))
    return float((exact - rounded).abs().mean()) > 1e-3


def no_graphs(_tmp_path) -> bool:
    from vllm.platforms.cpu import CpuPlatform

    return not CpuPlatform.support_static_graph_mode()


def no_sleep(_tmp_path) -> bool:
    from vllm.platforms.cpu import CpuPlatform

    return not CpuPlatform().is_sleep_mode_available()


PRECISION = (
    "dtype mixed_precision.param_dtype mixed_precision.reduce_dtype mixed_precision.buffer_dtype"
)
SWITCHED_OFF: Mapping[Callable[..., bool], Mapping[str, str]] = {
    bfloat16_rounds: {
        ENGINE: PRECISION,
        "actor_rollout_ref.ref.fsdp_config": PRECISION,
        "critic.fsdp": PRECISION,
        "engine": PRECISION,
        ROLLOUT: "dtype",
    },
    no_graphs: {ROLLOUT: "enforce_eager"},
    no_sleep: {ROLLOUT: "enable_sleep_mode free_cache_engine"},
}
"""Keys whose value on a GPU a CPU cannot have, by what says that the reason still holds."""


def keys(sections: Mapping[str, str]) -> set[str]:
    return {f"{section}.{name}" for section, names in sections.items() for name in names.split()}


def leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def changed(recipe: str, profile: str) -> set[str]:
    """Return the keys whose values the profile changes."""
    own, small = (
        dict(leaves(OmegaConf.to_container(composed_recipe(recipe, overrides), resolve=False)))
        for overrides in ([], [profile])
    )
    return {name for name in own | small if own.get(name) != small.get(name)}


@pytest.mark.parametrize("recipe", [*RECIPES, SFT_RECIPE])
def test_the_profile_keeps_the_layout_of_gpus(recipe):
    allowed = keys(SIZES) | keys(PLACES) | set().union(*map(keys, SWITCHED_OFF.values()))
    profile = "+profile=sft_cpu" if recipe == SFT_RECIPE else "+profile=cpu"
    found = {name for name in changed(recipe, profile) if not name.startswith(OF_ANY_VALUE)}
    assert found <= allowed


@pytest.mark.parametrize("recipe", RECIPES)
def test_rows_are_packed_fused_and_cut_by_tokens_on_a_cpu(recipe):
    policy = composed_recipe(recipe, ["+profile=cpu"]).actor_rollout_ref
    assert policy.model.use_remove_padding
    assert policy.model.use_fused_kernels
    assert policy.model.enable_gradient_checkpointing
    assert policy.actor.use_dynamic_bsz
    assert "attn_implementation" not in policy.model.get("override_config", {})


@pytest.mark.parametrize("holds", SWITCHED_OFF, ids=lambda holds: holds.__name__)
def test_the_reason_of_what_a_cpu_cannot_do_holds(holds, tmp_path):
    assert holds(tmp_path)
