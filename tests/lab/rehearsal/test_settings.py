from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.rehearsal.settings import PROFILE, RehearsalSettings, overrides_of, scaled


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
    changes = list(overrides_of(settings, recipe, tmp_path))
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
    assert Path(config.docagent.store) == tmp_path / "store"
