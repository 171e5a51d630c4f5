from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import check_recipe, composed
from docagent_rl.checks.recipe_list import Kind, recipe_kind, recipe_names, recipe_summary
from docagent_rl.checks.recipe_notes import Block, recipe_notes
from docagent_rl.checks.sft_check import check_sft_statically, size_problems
from docagent_rl.errors import UserError

RECIPES = recipe_names(kind=Kind.SFT)
VRAG, UNIDOC, DOC_V_STAR = (f"sft_{name}_qwen2_5_vl_7b" for name in ("vrag_rl", "unidoc_rl", "doc_v_star"))
EVERYWHERE = {
    "optim.lr_scheduler_type": "cosine",
    "docagent.freeze_vision_tower": True,
    "trainer.total_epochs": 3,
}
TABLE_4 = EVERYWHERE | {"optim.lr": 1e-5, "optim.lr_warmup_steps_ratio": 0.1}
PAPERS = {
    VRAG: TABLE_4 | {"data.max_length": 16384, "data.train_batch_size": 16 * 2},
    UNIDOC: TABLE_4 | {"data.max_length": 40000, "data.train_batch_size": 1 * 2 * 8},
    DOC_V_STAR: EVERYWHERE | {"optim.lr": 3e-6},
}
"""What the papers print: VRAG-RL table 4, UniDoc-RL appendix C, Doc-V* appendix D."""


def test_kinds_of_recipes_are_kept_apart():
    assert set(PAPERS) < set(RECIPES)
    assert all(name.startswith("sft_") for name in RECIPES)
    assert not any(name.startswith("sft_") for name in recipe_names())
    assert set(recipe_names(kind=None)) == {*RECIPES, *recipe_names()}


def test_a_recipe_of_ones_own_has_the_kind_of_what_it_builds_on(tmp_path):
    texts = {
        "mine": f"defaults: [{VRAG}, _self_]\n",
        "own": "defaults: [sft_trainer_engine, {base: sft}, _self_]\n",
        "rl": "defaults: [vrag_rl_qwen2_5_vl_7b, _self_]\n",
        "broken": "defaults: [",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    kinds = {name: recipe_kind(name, tmp_path) for name in texts}
    assert kinds == {"mine": Kind.SFT, "own": Kind.SFT, "rl": Kind.RL, "broken": Kind.RL}
    assert [finding.problem for finding in check_recipe("mine", tmp_path)] == [None, None]


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_in_order_and_names_what_the_papers_do_not_say(recipe):
    findings = check_recipe(recipe)
    assert [(finding.profile, finding.problem) for finding in findings] == [(None, None), ("sft_cpu", None)]
    config = composed(recipe)
    for key, value in PAPERS.get(recipe, {}).items():
        assert OmegaConf.select(config, key) == value, key
    noted = {key for block in Block for note in recipe_notes(recipe, block) for key in note.keys}
    assert {"optim.weight_decay", "optim.clip_grad", "data.train_batch_size"} <= noted
    for key in noted:
        assert OmegaConf.select(config, key) is not None, key


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_of_rl_starts_where_the_stage_before_it_ends(recipe):
    name = recipe.removeprefix("sft_")
    rl, stage = composed(name), composed(recipe)
    assert stage.model.path == rl.actor_rollout_ref.model.path
    assert stage.docagent.system == rl.docagent.system
    assert stage.docagent.store == rl.docagent.store
    assert name in recipe_summary(recipe)
    assert "hf_model" in stage.checkpoint.save_contents


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+optim.learning_rate=1"], "optim.learning_rate"),
        (["+data.stor=x"], r"data\.stor: .*data\.store"),
        (["+docagent.judge=x"], r"docagent\.judge"),
        (["trainer.save_freq=0"], "trainer.save_freq=0"),
        (["trainer.test_freq=0"], "trainer.test_freq=0"),
        (["data.val_files=null"], "data.val_files=null"),
        (["data.custom_cls.path=null"], "LedgerSftDataset"),
        (["engine.strategy=megatron"], "engine.strategy=megatron"),
        (["model.enable_activation_offload=true"], "enable_activation_offload"),
        (["checkpoint.save_contents=[model,optimizer,extra]"], "checkpoint.save_contents"),
        (["checkpoint.save_contents=[hf_model]"], "checkpoint.save_contents"),
        (["data.pad_mode=right"], "data.pad_mode=right"),
        (["+actor_rollout_ref.model.path=x"], r"\+profile=cpu .*sft_trainer"),
        (["docagent.system=nobody"], "'nobody'"),
        # all problems at once
        (["optim.lr=0", "trainer.total_epochs=0"], r"(?s)optim.lr=0.*trainer.total_epochs=0"),
    ],
)
def test_what_no_run_can_have_is_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        check_sft_statically(composed(VRAG, overrides))


@pytest.mark.parametrize(
    ("overrides", "processes", "problem"),
    [
        ([], 8, None),
        ([], 1, None),
        ([], 3, "data.train_batch_size=32"),
        (["data.use_dynamic_bsz=false", "data.micro_batch_size_per_gpu=3"], 8, "3"),
        (["engine.ulysses_sequence_parallel_size=4"], 8, None),
        (["engine.ulysses_sequence_parallel_size=4"], 6, " 6"),
    ],
)
def test_a_batch_has_to_be_shared_evenly(overrides, processes, problem):
    found = size_problems(composed(VRAG, overrides), processes)
    assert len(found) == (problem is not None)
    assert all(problem in each for each in found)
