from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_module

from docagent_rl.checks.preflight import Preflight, agent_loops, check
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.records.parquet import write_parquet
from docagent_rl.records.record import Record
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.synth import SynthSettings, synthesize
from docagent_rl.systems import get_system
from tests.retrieval.service.conftest import running

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture(scope="module")
def workspace(world, tmp_path_factory):
    from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl

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
        (["+trainer.sav_freq=3"], r"trainer\.sav_freq: .*trainer\.save_freq"),
        (["+docagent.env.max_turn=3"], r"docagent\.env\.max_turn:"),
        (["docagent.env.display.min_pixels=nan"], r"docagent\.env\.display\.min_pixels"),
        (["~data.val_files"], r"data\.val_files"),
        (["docagent.system=vrag"], "'vrag'"),
        (["docagent.store=/nowhere"], "/nowhere"),
        (["docagent.retriever.index=/nowhere"], "/nowhere"),
        (["docagent.prompt=/nowhere.yaml"], "/nowhere.yaml"),
        (["data.train_files=/nowhere.parquet"], r"data\.train_files: /nowhere\.parquet"),
        (["actor_rollout_ref.model.path=/nowhere"], "model.path=/nowhere"),
        (["data.max_response_length=150"], " 256 .* 5 "),
        (["actor_rollout_ref.rollout.max_model_len=1000"], "max_model_len=1000"),
        (["trainer.device=cuda"], r"\+profile=cpu"),
        (["ray_kwargs.ray_init.num_cpus=1"], " 1 CPU .* 6"),
        (["+ray_kwargs.ray_init.address=here"], "address=here"),
    ],
)
def test_problems_name_the_offender(config, overrides, message):
    with pytest.raises(UserError, match=message):
        check(config(*overrides))


def test_the_systems_section_may_be_taken_out(config):
    """As for a system of a user's own, with a configuration of its own."""
    assert check(config("~docagent.env")).env == get_system("vrag_rl").small


def test_a_judge_that_does_not_answer(config):
    judge = ["docagent.judge.kind=openai", "docagent.judge.base_url=http://127.0.0.1:9/v1"]
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9"):
        check(config(*judge, "docagent.judge.attempts=1"))


HTTP = ["docagent.retriever.backend=http", "docagent.retriever.service.url=http://127.0.0.1:9"]


def test_a_search_server_that_does_not_answer(config):
    with pytest.raises(InfrastructureError, match=r"docagent\.retriever\.service\.url=http://127\.0\.0\.1:9"):
        check(config(*HTTP))


RAY = "docagent.retriever.backend=ray"


def test_actors_need_no_ray_before_the_run(config):
    assert check(config(RAY)).retriever.backend == "ray"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([HTTP[0]], r"service\.url"),
        ([*HTTP, "docagent.retriever.service.url=here:1"], r"service\.url=here:1"),
        ([*HTTP, "docagent.retriever.service.token_env=NOBODY_SETS_THIS"], "NOBODY_SETS_THIS"),
        ([*HTTP, "docagent.retriever.deadline_s=1"], r"timeout_s=10 .*deadline_s"),
        ([RAY, "docagent.retriever.index=/nowhere"], "/nowhere"),
        (
            [RAY, "docagent.retriever.service.replicas=4", "ray_kwargs.ray_init.num_cpus=6"],
            r"10.*4 .*docagent\.retriever\.service\.shards",
        ),
    ],
)
def test_services_that_cannot_search_are_refused(config, overrides, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        check(config(*overrides))


@pytest.mark.slow
def test_a_search_server_of_another_store_is_refused(config, workspace, tmp_path_factory):
    store, index = workspace / "store", workspace / "index"
    with running(DocumentStore(store), index) as (_, url):
        overrides = [HTTP[0], f"docagent.retriever.service.url={url}", "docagent.retriever.index=/nowhere"]
        assert check(config(*overrides)).retriever.backend == "http"
    other = tmp_path_factory.mktemp("other")
    synthesize(other / "synthetic", SynthSettings(documents=1, seed=6))
    ingest(other / "synthetic" / "pdfs", other / "store", workers=1)
    BM25Retriever.build(DocumentStore(other / "store")).save(other / "index")
    told = pytest.raises(UserError, match=r"docagent\.retriever\.service: ")
    with running(DocumentStore(other / "store"), other / "index") as (_, url), told:
        check(config(HTTP[0], f"docagent.retriever.service.url={url}"))


def changed(workspace, path, change):
    table = pq.read_table(workspace / "data" / "train.parquet")
    pq.write_table(change(table), path)
    return f"data.train_files={path}"


def test_a_wrong_column(config, workspace, tmp_path):
    override = changed(workspace, tmp_path / "x.parquet", lambda table: table.drop_columns(["record"]))
    with pytest.raises(UserError, match=r"x\.parquet: .*'record'"):
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

    with pytest.raises(UserError, match="agent_name 'mine'"):
        check(config(changed(workspace, tmp_path / "x.parquet", rename)))


@pytest.mark.parametrize(
    "text",
    [
        "mine: {_target_: loops.Mine}",
        "- {name: mine, _target_: loops.Mine}\n- {_target_: loops.Other}",
        "- mine",
        "- {name: mine",
        None,
    ],
)
def test_a_file_of_agent_loops_that_is_none(tmp_path, text):
    path = tmp_path / "loops.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=rf"agent_loop_config_path={path}"):
        agent_loops(str(path))


def test_agent_loops_of_ones_own_have_names(tmp_path):
    path = tmp_path / "loops.yaml"
    path.write_text("- {name: mine, _target_: loops.Mine}\n- {name: other, _target_: loops.Other}\n")
    assert agent_loops(str(path)) == {"mine", "other"}


def test_hydra_cannot_turn_the_error_into_a_warning(config, capsys):
    with pytest.raises(SystemExit) as stop:
        Preflight().on_run_start(config("docagent.store=/nowhere"))
    assert stop.value.code == 2
    assert "/nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_every_recipe_composes(config):
    from docagent_rl.checks.recipe_list import recipe_names, recipe_summary

    assert RECIPE in recipe_names()
    for name in recipe_names():
        assert config(recipe=name).docagent.system
        assert "Hardware" in recipe_summary(name)


APP = """
import hydra

@hydra.main(config_path="pkg://verl.trainer.config", config_name="vrag_rl_qwen2_5_vl_7b", version_base=None)
def main(config):
    print("ran with", config.trainer.total_epochs)

main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--multirun", "hydra.mode=MULTIRUN"])
def test_several_runs_of_one_command_are_refused_with_one_error(how, workspace, tmp_path):
    app = tmp_path / "app.py"
    app.write_text(APP)
    values = [f"docagent.workspace={workspace}", f"hydra.sweep.dir={tmp_path / 'sweep'}"]
    command = [sys.executable, str(app), how, *values, "+profile=cpu", "trainer.total_epochs=1,2"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("docagent-rl:") == 1
    assert "--multirun" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "ran with" not in ended.stdout
