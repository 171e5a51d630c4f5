from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from docagent_rl.checks import sft_preflight
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.sft_preflight import check_sft, settle_process
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.errors import UserError
from docagent_rl.sft.files import SftRow
from docagent_rl.sft.rows import write_sft
from docagent_rl.training.patching import PatchState

RECIPE = "sft_vrag_rl_qwen2_5_vl_7b"
MODULE = "verl.trainer.sft_trainer"


@pytest.fixture(scope="module")
def workspace(world, tmp_path_factory):
    from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl

    root = tmp_path_factory.mktemp("workspace")
    (root / "store").symlink_to(world.root / "store")
    build_tiny_qwen2_5_vl(root / "models" / "tiny_vrag_rl")
    return root


@pytest.fixture(scope="module")
def tokenizer(workspace):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(workspace / "models" / "tiny_vrag_rl")


@pytest.fixture(scope="module")
def row(workspace):
    store = DocumentStore(workspace / "store")
    page = store.page(PageRef(store.doc_ids()[0], 1))
    picture = ImageRef(page.ref, page.image_hash, (0, 0, *page.size), (56, 56))
    return SftRow("q1", "vrag_rl", 0, 1.0, (5, 6, 7), (0, 1, 1), (picture,))


@pytest.fixture
def config(workspace, tokenizer, row):
    folder = workspace / "sft" / "vrag_rl"
    for name in ("train", "val"):
        write_sft([row] * 4, folder / f"{name}.parquet", tokenizer)

    def make(*overrides):
        return composed(RECIPE, ["+profile=cpu", f"docagent.workspace={workspace}", *overrides])

    return make


def test_a_good_run_passes(config, workspace):
    section = check_sft(config())
    assert section.system == "vrag_rl"
    assert section.freeze_vision_tower


def test_everything_that_is_missing_is_in_one_error(config):
    wrong = config(
        "data.train_files=/nowhere/train.parquet", "model.path=/nowhere/model", "data.store=/nowhere/store"
    )
    with pytest.raises(UserError) as told:
        check_sft(wrong)
    text = str(told.value)
    for part in (
        "model.path=/nowhere/model: no model there",
        "docagent-rl demo --system vrag_rl",
        "data.train_files: /nowhere/train.parquet: no such file",
        "docagent-rl data sft",
        "data.store: /nowhere/store does not exist",
    ):
        assert part in text


def test_rows_of_another_tokenizer_are_refused(config, workspace, row):
    from docagent_rl.tiny.tokenizer import build_tokenizer

    other = build_tokenizer(["plates plates zyxwv zyxwv"] * 50)
    write_sft([row] * 4, workspace / "sft" / "vrag_rl" / "train.parquet", other)
    with pytest.raises(UserError, match=r"train\.parquet"):
        check_sft(config())


@pytest.mark.parametrize("key", ["data.max_length", "data.max_token_len_per_gpu"])
def test_rows_that_are_too_long_are_counted(config, workspace, tokenizer, row, key):
    longer = replace(row, question_id="long", input_ids=(5,) * 90, loss_mask=(0,) * 90)
    write_sft([row, longer, row, row], workspace / "sft" / "vrag_rl" / "val.parquet", tokenizer)
    with pytest.raises(UserError, match=rf"1 of 4 .*{key}=50.*question long"):
        check_sft(config("data.use_dynamic_bsz=true", f"{key}=50"))


def test_a_batch_that_the_rows_do_not_fill_is_refused(config, workspace, tokenizer, row):
    write_sft([row] * 3, workspace / "sft" / "vrag_rl" / "val.parquet", tokenizer)
    with pytest.raises(UserError, match=r"data\.val_files: 3 .*data\.train_batch_size=4"):
        check_sft(config())
    with pytest.raises(UserError, match=r"data\.train_files: 2 rows"):
        check_sft(config("data.train_max_samples=2"))


def test_documents_that_the_store_lacks_are_named(config, workspace, tokenizer, row):
    gone = replace(row, images=(replace(row.images[0], page=PageRef("gone.pdf", 1)),))
    write_sft([row, gone, row, row], workspace / "sft" / "vrag_rl" / "train.parquet", tokenizer)
    with pytest.raises(UserError, match=r"gone\.pdf"):
        check_sft(config())


def test_processes_that_cannot_share_a_batch_are_refused(config, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match=" 3 "):
        check_sft(config())


def test_an_accelerator_that_is_not_there_is_told(config):
    with pytest.raises(UserError, match=r"\+profile=cpu"):
        check_sft(config("trainer.device=cuda"))


def test_a_process_without_the_plugin_is_refused(config, monkeypatch):
    monkeypatch.setattr(sft_preflight, "patch_status", list)
    with pytest.raises(UserError, match="VERL_USE_EXTERNAL_PLUGINS"):
        check_sft(config())


def test_one_process_needs_no_torchrun_and_metrics_have_a_file_for_each_start(config, tmp_path, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", sft_preflight.LOG_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    run = config(f"docagent.run_dir={tmp_path}")
    settle_process(run)
    assert (os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"]) == ("1", "127.0.0.1")
    assert os.environ[sft_preflight.LOG_VARIABLE] == str(tmp_path / "metrics" / "after_0.jsonl")
    del os.environ[sft_preflight.LOG_VARIABLE]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("7")
    settle_process(run)
    assert os.environ[sft_preflight.LOG_VARIABLE].endswith("after_7.jsonl")


def test_the_trainer_that_starts_ray_is_refused(config, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name=sft_preflight.RAY_TRAINER))
    with pytest.raises(UserError, match="torchrun"):
        check_sft(config())


def _python(*arguments, **variables):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **variables}
    )


@pytest.mark.slow
def test_the_trainer_itself_refuses_with_one_error(tmp_path):
    workspace = f"docagent.workspace={tmp_path}"
    ended = _python("-m", MODULE, "--config-name", RECIPE, "+profile=cpu", workspace)
    assert ended.returncode == 2
    _, told = ended.stderr.split("docagent-rl: ")
    assert told.startswith("this run cannot start:")
    assert "no model there" in told


@pytest.mark.slow
def test_patches_and_kernels_are_installed_in_the_trainers_process():
    script = (
        f"import json, runpy; runpy.run_module({MODULE!r}, run_name='trainer');"
        "import verl.workers.engine.fsdp.transformer_impl;"
        "from docagent_rl.training.patching import patch_status;"
        "print(json.dumps({s.name: [s.state.value, s.detail] for s in patch_status()}))"
    )
    ended = _python("-c", script)
    states = json.loads(ended.stdout.splitlines()[-1])
    assert "sft_resume_at_epoch_end" in states
    applied = {name for name, (state, _) in states.items() if state == PatchState.APPLIED.value}
    assert {"sft_resume_at_epoch_end", "flash_attention_by_torch", "gloo_process_group"} <= applied
    assert PatchState.VERSION_MISMATCH.value not in {state for state, _ in states.values()}


@pytest.mark.slow
def test_the_engine_of_a_run_freezes_the_tower():
    script = (
        "import verl; from verl.workers.engine import EngineRegistry;"
        "before = EngineRegistry.get_engine_cls('language_model', 'fsdp2');"
        "from docagent_rl.training.workers.frozen import register_frozen_engine;"
        "register_frozen_engine('fsdp2');"
        "after = EngineRegistry.get_engine_cls('language_model', 'fsdp2');"
        "print(after.__name__, issubclass(after, before),"
        " EngineRegistry.get_engine_cls('value_model', 'fsdp2').__name__)"
    )
    ended = _python("-c", script)
    assert ended.stdout.splitlines()[-1] == "FrozenVisionEngine True FSDPEngineWithValueHead", ended.stderr[
        -2000:
    ]
