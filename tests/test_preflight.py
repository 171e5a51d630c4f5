from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_module

from docagent_rl.data.parquet import write_parquet
from docagent_rl.data.record import Record
from docagent_rl.errors import UserError
from docagent_rl.preflight import Preflight, check

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture(scope="module")
def workspace(world, tmp_path_factory):
    from docagent_rl.testing.tiny_qwen2_5_vl import build_tiny_qwen2_5_vl

    root = tmp_path_factory.mktemp("workspace")
    (root / "store").symlink_to(world.root / "store")
    (root / "index").symlink_to(world.root / "index")
    for split in ("train", "val"):
        write_parquet(world.records, root / "data" / f"{split}.parquet")
    build_tiny_qwen2_5_vl(root / "models" / "tiny_vrag_rl")
    return root


@pytest.fixture
def config(workspace):
    def make(*overrides, recipe=RECIPE):
        with initialize_config_module(config_module="verl.trainer.config", version_base=None):
            return compose(
                recipe,
                overrides=[
                    "+profile=cpu",
                    f"docagent.workspace={workspace}",
                    "docagent.auto_demo=false",
                    *overrides,
                ],
            )

    return make


def test_a_good_configuration_passes(config, workspace):
    parsed = check(config())
    assert parsed.system == "vrag_rl"
    assert parsed.store == workspace / "store"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+trainer.sav_freq=3"], r"trainer\.sav_freq: unknown key; did you mean trainer\.save_freq"),
        (["+docagent.rollout.turn_token=3"], r"docagent\.rollout\.turn_token: unknown key"),
        (["+docagent.env.max_turn=3"], r"docagent\.env\.max_turn: unknown key"),
        (["docagent.env.variant=published"], r"docagent\.env\.variant"),
        (["docagent.system=vrag"], "there is no system 'vrag'; known are"),
        (["docagent.store=/nowhere"], "/nowhere"),
        (["docagent.retriever.index=/nowhere"], "/nowhere"),
        (["docagent.prompt=/nowhere.yaml"], "/nowhere.yaml"),
        (["data.train_files=/nowhere.parquet"], r"data\.train_files: /nowhere\.parquet does not exist"),
        (["actor_rollout_ref.model.path=/nowhere"], "model.path=/nowhere: no model there"),
        (["data.max_response_length=150"], "images of up to 256 tokens in all and 5 turns"),
        (["actor_rollout_ref.rollout.max_model_len=1000"], "max_model_len=1000 is shorter"),
        (["trainer.device=cuda"], r"no accelerator here: add \+profile=cpu"),
        (["+ray_kwargs.ray_init.address=auto", "docagent.workspace=here"], "workspace=here is relative"),
    ],
)
def test_problems_name_the_offender(config, overrides, message):
    with pytest.raises(UserError, match=message):
        check(config(*overrides))


def test_a_judge_that_does_not_answer(config):
    judge = ["docagent.judge.kind=openai", "docagent.judge.base_url=http://127.0.0.1:9/v1"]
    with pytest.raises(UserError, match=r"judge does not answer.*127\.0\.0\.1:9"):
        check(config(*judge, "docagent.judge.attempts=1"))


def changed(workspace, path, change):
    table = pq.read_table(workspace / "data" / "train.parquet")
    pq.write_table(change(table), path)
    return f"data.train_files={path}"


def test_a_wrong_column(config, workspace, tmp_path):
    override = changed(workspace, tmp_path / "x.parquet", lambda table: table.drop_columns(["record"]))
    with pytest.raises(UserError, match=r"x\.parquet: column 'record' is missing"):
        check(config(override))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("doc_id", "missing-report", "missing-report"), ("evidence_pages", [999], "999")],
)
def test_data_that_do_not_fit_the_store(config, world, tmp_path, field, value, message):
    record = world.records[0].to_dict()
    record = Record.from_dict({**record, field: value, "evidence_boxes": {}})
    write_parquet([record], tmp_path / "x.parquet")
    with pytest.raises(UserError, match=message):
        check(config(f"data.train_files={tmp_path / 'x.parquet'}"))


def test_an_unknown_agent_loop(config, workspace, tmp_path):
    import pyarrow as pa

    def rename(table):
        place = table.column_names.index("agent_name")
        return table.set_column(place, "agent_name", pa.array(["mine"] * len(table)))

    with pytest.raises(UserError, match="agent_name 'mine' is not among docagent"):
        check(config(changed(workspace, tmp_path / "x.parquet", rename)))


def test_hydra_cannot_turn_the_error_into_a_warning(config, capsys):
    with pytest.raises(SystemExit) as stop:
        Preflight().on_job_start(config("docagent.store=/nowhere"))
    assert stop.value.code == 2
    assert "/nowhere" in capsys.readouterr().err


def test_every_recipe_composes(config):
    from docagent_rl.recipe_list import recipe_names, recipe_summary

    assert RECIPE in recipe_names()
    for name in recipe_names():
        assert config(recipe=name).docagent.system
        assert "Hardware" in recipe_summary(name)


def test_records_survive_as_json(world, workspace):
    rows = pq.read_table(workspace / "data" / "train.parquet").to_pylist()
    assert json.loads(rows[0]["record"]) == world.records[0].to_dict()
