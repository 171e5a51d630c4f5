import os
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import check_recipe, composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_kind, recipe_names, recipe_summary
from docagent_rl.checks.sft_check import check_sft_statically, sft_size_problems
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.sft import preflight as sft_preflight
from docagent_rl.lab.sft.preflight import check_sft, settle_process
from docagent_rl.lab.sft.rows import SftRow, write_sft
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from tools.recipe_provenance import provenance_problems

RECIPES = recipe_names(kind=TrainerKind.SFT)
VRAG, UNIDOC, DOC_V_STAR = (
    f"sft_{name}_qwen2_5_vl_7b" for name in ("vrag_rl", "unidoc_rl", "doc_v_star")
)


def test_a_recipe_has_the_kind_of_what_it_builds_on(tmp_path):
    texts = {
        "mine": f"defaults: [{VRAG}, _self_]\n",
        "own": "defaults: [sft_trainer_engine, {base: sft}, _self_]\n",
        "rl": "defaults: [vrag_rl_qwen2_5_vl_7b, _self_]\n",
        "broken": "defaults: [",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    kinds = {name: recipe_kind(name, tmp_path) for name in texts}
    assert kinds == {
        "mine": TrainerKind.SFT,
        "own": TrainerKind.SFT,
        "rl": TrainerKind.RL,
        "broken": TrainerKind.RL,
    }
    assert [finding.problem for finding in check_recipe("mine", tmp_path)] == [None, None]
    assert set(RECIPES) == {name for name in recipe_names(kind=None) if name.startswith("sft_")}
    assert set(recipe_names(kind=None)) == {*RECIPES, *recipe_names()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_in_order_and_each_of_its_settings_has_provenance(recipe):
    findings = check_recipe(recipe)
    assert [(finding.profile, finding.problem) for finding in findings] == [
        (None, None),
        ("sft_cpu", None),
    ]
    assert provenance_problems(recipe, composed_recipe(recipe)) == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_of_rl_starts_where_the_stage_before_it_ends(recipe):
    name = recipe.removeprefix("sft_")
    rl, stage = composed_recipe(name), composed_recipe(recipe)
    assert stage.model.path == rl.actor_rollout_ref.model.path
    assert (stage.docagent.system, stage.docagent.store) == (rl.docagent.system, rl.docagent.store)
    assert name in recipe_summary(recipe)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+data.stor=x"], r"data\.stor: .*data\.store"),
        (["+docagent.judge=x"], r"docagent\.judge"),
        (["trainer.save_freq=0"], "trainer.save_freq=0"),
        (["data.val_files=null"], "data.val_files=null"),
        (["model.enable_activation_offload=true"], "enable_activation_offload"),
        (["checkpoint.save_contents=[model,optimizer,extra]"], "checkpoint.save_contents"),
        (["data.pad_mode=right"], "data.pad_mode=right"),
        (["+actor_rollout_ref.model.path=x"], "actor_rollout_ref: unknown"),
        # all problems at once
        (["optim.lr=0", "trainer.total_epochs=0"], r"(?s)optim.lr=0.*trainer.total_epochs=0"),
        (
            ["engine.dtype=float32"],
            r"engine\.dtype=float32 has no effect.*\+engine\.mixed_precision=",
        ),
        (["data.truncation=left"], r"data\.truncation=left: it has no effect.*contain tokens"),
        (["trainer.seed=3"], r"trainer\.seed=3: it has no effect.*a fixed seed of its own"),
        (["data.custom_cls.name=MultiTurnSFTDataset"], r"must be LedgerSftDataset"),
    ],
)
def test_what_no_run_can_have_is_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        check_sft_statically(composed_recipe(VRAG, overrides))


@pytest.mark.parametrize(
    ("overrides", "processes", "problem"),
    [
        ([], 8, None),
        ([], 3, "data.train_batch_size=32"),
        (["data.use_dynamic_bsz=false", "data.micro_batch_size_per_gpu=3"], 8, "3"),
        (["engine.ulysses_sequence_parallel_size=4"], 6, " 6"),
    ],
)
def test_a_batch_has_to_be_shared_evenly(overrides, processes, problem):
    found = sft_size_problems(composed_recipe(VRAG, overrides), processes)
    assert len(found) == (problem is not None)
    assert all(problem in each for each in found)


RECIPE = "sft_vrag_rl_qwen2_5_vl_7b"


@pytest.fixture(scope="module")
def tokenizer(workspace):
    return AutoTokenizer.from_pretrained(workspace / "models" / "tiny_vrag_rl_qwen2_5_vl")


@pytest.fixture(scope="module")
def row(workspace):
    store = DocumentStore(workspace / "store")
    page = store.page(PageRef(store.doc_ids()[0], 1))
    picture = ImageRef(page.ref, page.image_hash, (0, 0, *page.size), (56, 56))
    return SftRow("q1", "vrag_rl", 0, 1.0, (5, 6, 7), (0, 1, 1), (picture,))


@pytest.fixture
def sft(workspace, tokenizer, row):
    """Return a function that composes a run on these rows; `files` gives a file other rows, and
    `by` another tokenizer.
    """

    def make(*overrides, by=tokenizer, **files):
        for name in ("train", "val"):
            write_sft(
                files.get(name, [row] * 4), workspace / "sft" / "vrag_rl" / f"{name}.parquet", by
            )
        return composed_recipe(
            RECIPE, ["+profile=cpu", f"docagent.workspace={workspace}", *overrides]
        )

    return make


def test_a_good_run_passes_and_everything_that_is_missing_is_in_one_error(sft):
    assert check_sft(sft()).freeze_vision_tower
    missing = {
        "data.train_files": "/nowhere/train.parquet",
        "model.path": "/nowhere/model",
        "data.store": "/n",
    }
    with pytest.raises(UserError) as told:
        check_sft(sft(*(f"{key}={value}" for key, value in missing.items())))
    assert all(
        key in str(told.value) and value in str(told.value) for key, value in missing.items()
    )


def test_a_model_and_an_image_processor_of_another_family_are_refused(sft, tmp_path):
    run = sft()
    with pytest.raises(UserError, match=r"model_family=qwen3_vl: model\.path=.*qwen2_5_vl"):
        check_sft(sft("docagent.model_family=qwen3_vl", f"model.path={run.model.path}"))
    copy = shutil.copytree(run.model.path, tmp_path / "model")
    for settings in copy.glob("*processor_config.json"):
        settings.write_text(settings.read_text().replace('"patch_size": 14', '"patch_size": 16'))
    with pytest.raises(UserError, match="patch_size of the model's image processor is 16"):
        check_sft(sft(f"model.path={copy}"))


def test_rows_of_another_tokenizer_are_refused(sft):
    with pytest.raises(UserError, match=r"train\.parquet"):
        check_sft(sft(by=build_tokenizer(["plates plates zyxwv zyxwv"] * 50)))


@pytest.mark.parametrize("key", ["data.max_length", "data.max_token_len_per_gpu"])
def test_rows_that_are_too_long_are_counted(sft, row, key):
    longer = replace(row, question_id="long", input_ids=(5,) * 90, loss_mask=(0,) * 90)
    run = sft("data.use_dynamic_bsz=true", f"{key}=50", val=[row, longer, row, row])
    with pytest.raises(UserError, match=rf"1 of 4 .*{key}=50.*question long"):
        check_sft(run)


def test_a_batch_that_the_rows_do_not_fill_is_refused(sft, row):
    with pytest.raises(UserError, match=r"data\.val_files: 3 .*data\.train_batch_size=4"):
        check_sft(sft(val=[row] * 3))
    with pytest.raises(UserError, match=r"data\.train_files: 2 rows"):
        check_sft(sft("data.train_max_samples=2"))


def test_documents_that_the_store_lacks_and_an_accelerator_that_is_not_there_are_named(sft, row):
    gone = replace(row, images=(replace(row.images[0], page=PageRef("gone.pdf", 1)),))
    with pytest.raises(UserError, match=r"gone\.pdf"):
        check_sft(sft(train=[row, gone, row, row]))
    with pytest.raises(UserError, match=r"\+profile=cpu"):
        check_sft(sft("trainer.device=cuda"))


@pytest.mark.parametrize(
    ("what", "name", "value", "message"),
    [
        (os.environ, "WORLD_SIZE", "3", " 3 "),
        (sft_preflight, "patch_status", list, "VERL_USE_EXTERNAL_PLUGINS"),
        (
            sys.modules["__main__"],
            "__spec__",
            SimpleNamespace(name=sft_preflight.RAY_TRAINER),
            "torchrun",
        ),
    ],
)
def test_processes_that_cannot_run_it_are_refused(sft, monkeypatch, what, name, value, message):
    (monkeypatch.setitem if what is os.environ else monkeypatch.setattr)(what, name, value)
    with pytest.raises(UserError, match=message):
        check_sft(sft())


def test_one_process_needs_no_torchrun_and_metrics_have_a_file_for_each_start(
    sft, tmp_path, monkeypatch
):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", sft_preflight.LOG_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    run = sft(f"docagent.run_dir={tmp_path}")
    settle_process(run)
    assert (os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"]) == ("1", "127.0.0.1")
    assert os.environ.pop(sft_preflight.LOG_VARIABLE) == str(tmp_path / "metrics" / "after_0.jsonl")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("7")
    settle_process(run)
    assert os.environ[sft_preflight.LOG_VARIABLE].endswith("after_7.jsonl")
