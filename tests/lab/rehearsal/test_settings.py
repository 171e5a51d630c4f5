from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.rehearsal.paths import RehearsalPaths
from docagent_rl.lab.rehearsal.settings import (
    LOOP,
    PROFILE,
    RehearsalSettings,
    batch_sizes,
    overrides_of,
    quoted,
    scaled,
)


@given(st.integers(1, 1024), st.floats(0.001, 1), st.integers(1, 16))
def test_a_share_of_a_batch_can_be_divided(questions, share, parts):
    found = scaled(questions, share, parts)
    assert found % parts == 0
    assert found >= parts
    assert abs(found - questions * share) <= parts


@pytest.mark.parametrize(
    "name",
    [
        "alden_qwen2_5_vl_7b",
        "doc_v_star_qwen2_5_vl_7b",
        "mm_doc_r1_qwen3_8b",
        "unidoc_rl_qwen2_5_vl_7b",
        "vrag_rl_qwen3_vl_30b_a3b",
    ],
)
def test_a_rehearsal_has_the_recipes_sizes(name, tmp_path):
    recipe = composed_recipe(name)
    settings = RehearsalSettings(share=0.5, ranks=2, judge_s=0.25, search_s=0.5)
    longest = recipe.actor_rollout_ref.rollout.max_model_len
    paths = RehearsalPaths(tmp_path, recipe.docagent.model_family, longest)
    changes = list(overrides_of(settings, recipe, paths))
    config = composed_recipe(name, [f"+profile={PROFILE}", *changes])
    for section in ("env", "rollout", "model_family"):
        assert config.docagent[section] == recipe.docagent[section]
    for key in ("max_prompt_length", "max_response_length"):
        assert config.data[key] == recipe.data[key]
    rollout = config.actor_rollout_ref.rollout
    for key in ("n", "max_model_len", "temperature"):
        assert rollout[key] == recipe.actor_rollout_ref.rollout[key]
    actor = config.actor_rollout_ref.actor
    whole = recipe.actor_rollout_ref.actor
    assert actor.ppo_max_token_len_per_gpu == whole.ppo_max_token_len_per_gpu
    assert config.data.train_batch_size == recipe.data.train_batch_size // 2
    assert actor.ppo_mini_batch_size == max(2, whole.ppo_mini_batch_size // 2)
    assert config.trainer.n_gpus_per_node == config.ray_kwargs.ray_init.num_gpus == 2
    assert config.docagent.retriever.options.seconds == 0.5
    variables = config.ray_kwargs.ray_init.runtime_env.env_vars
    assert variables.DOCAGENT_REHEARSAL_JUDGE_S == "0.25"
    assert variables.DOCAGENT_REHEARSAL_SAMPLED == "32"
    assert Path(config.docagent.store) == tmp_path / "store"
    assert Path(config.actor_rollout_ref.model.path) == paths.model
    assert list(config.docagent.modules) == [LOOP]


@pytest.mark.parametrize(
    ("name", "share", "sizes"),
    [
        ("vrag_rl_qwen2_5_vl_7b", 1.0, (32, 16)),
        ("vrag_rl_qwen2_5_vl_7b", 0.125, (4, 2)),
        # one update, as in the recipe
        ("mm_doc_r1_qwen3_8b", 1.0, (4, 16)),
        ("mm_doc_r1_qwen3_8b", 0.125, (1, 4)),
    ],
)
def test_a_share_has_the_recipes_number_of_updates(name, share, sizes):
    assert batch_sizes(RehearsalSettings(share=share), composed_recipe(name)) == sizes


def changed(name, tmp_path, *overrides):
    recipe = composed_recipe(name, overrides)
    paths = RehearsalPaths(tmp_path, recipe.docagent.model_family, 1000)
    changes = overrides_of(RehearsalSettings(), recipe, paths)
    return composed_recipe(name, [*overrides, f"+profile={PROFILE}", *changes])


def test_the_users_modules_are_imported_too(tmp_path):
    config = changed("vrag_rl_qwen2_5_vl_7b", tmp_path, "docagent.modules=[mine]")
    assert list(config.docagent.modules) == [LOOP, "mine"]


def test_one_ranking_stands_in_for_both_of_a_hybrid(tmp_path):
    config = changed("alden_hybrid_qwen2_5_vl_7b", tmp_path)
    assert config.docagent.text_retriever is None
    assert config.docagent.env.search.text_ranking == "shared"


@pytest.mark.parametrize(
    ("name", "dtype", "keeps_prefixes"),
    [("vrag_rl_qwen3_5_9b", "bfloat16", False), ("vrag_rl_qwen3_vl_8b", "float32", True)],
)
def test_delta_layers_are_served_as_vllm_can_on_a_cpu(name, dtype, keeps_prefixes, tmp_path):
    rollout = changed(name, tmp_path).actor_rollout_ref.rollout
    assert (rollout.dtype, rollout.enable_prefix_caching) == (dtype, keeps_prefixes)


def test_servers_with_gpus_of_their_own_are_refused(tmp_path):
    mode = "trainer.v1.trainer_mode=docagent_separate_async"
    with pytest.raises(UserError, match="rehearse another mode"):
        changed("vrag_rl_qwen2_5_vl_7b", tmp_path, mode)


def test_folders_may_have_any_name(tmp_path):
    folder = tmp_path / "it's a=b, (1) ü"
    config = changed("vrag_rl_qwen2_5_vl_7b", folder)
    assert Path(config.docagent.workspace) == folder
    assert quoted(Path("a'b")) == r"'a\'b'"


@pytest.mark.parametrize(
    ("name", "held", "blocks"),
    [
        # half of 256 trajectories play at two servers, whose caches hold half of 120
        ("doc_v_star_qwen2_5_vl_7b", 120, 30 * 45056 // 128),
        # all fit
        ("doc_v_star_qwen2_5_vl_7b", 300, None),
        ("doc_v_star_qwen2_5_vl_7b", None, None),
        # layers with a state divide a cache differently
        ("doc_v_star_qwen3_5_9b", 120, None),
    ],
)
def test_a_cache_holds_the_same_share_of_the_trajectories(name, held, blocks, tmp_path):
    recipe = composed_recipe(name)
    paths = RehearsalPaths(tmp_path, recipe.docagent.model_family, 1000)
    settings = RehearsalSettings(share=0.5, ranks=2)
    changes = overrides_of(settings, recipe, paths, held)
    config = composed_recipe(name, [f"+profile={PROFILE}", *changes])
    engine = config.actor_rollout_ref.rollout.engine_kwargs.vllm
    assert engine.get("num_gpu_blocks_override") == blocks
    space = int(config.ray_kwargs.ray_init.runtime_env.env_vars.VLLM_CPU_KVCACHE_SPACE)
    fits = 64 if held is None else min(64, held // 4)
    assert space << 30 >= fits * 45056 * 512
