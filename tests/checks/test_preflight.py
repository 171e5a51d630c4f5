from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docagent_rl.checks.preflight import Preflight, agent_loops
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.records.parquet import write_parquet
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.synth import SynthSettings, synthesize
from docagent_rl.systems import get_system
from tests.retrieval.service.conftest import running

NOBODY = "http://127.0.0.1:9"
HTTP = ["docagent.retriever.backend=http", f"docagent.retriever.service.url={NOBODY}"]
RAY = "docagent.retriever.backend=ray"


def test_a_good_configuration_passes(checked, workspace):
    parsed = checked()
    assert parsed.system == "vrag_rl"
    assert parsed.store == workspace / "store"
    # actors need no Ray before the run
    assert checked(RAY).retriever.backend == "ray"


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
        # a judge and services that cannot be asked
        (["docagent.judge.kind=openai", f"docagent.judge.base_url={NOBODY}/v1", "docagent.judge.attempts=1"],
         NOBODY),
        ([HTTP[0]], r"service\.url"),
        ([*HTTP, "docagent.retriever.service.url=here:1"], r"service\.url=here:1"),
        ([*HTTP, "docagent.retriever.service.token_env=NOBODY_SETS_THIS"], "NOBODY_SETS_THIS"),
        ([*HTTP, "docagent.retriever.deadline_s=1"], r"timeout_s=10 .*deadline_s"),
        ([RAY, "docagent.retriever.index=/nowhere"], "/nowhere"),
        ([RAY, "docagent.retriever.service.replicas=4", "ray_kwargs.ray_init.num_cpus=6"],
         r"10.*4 .*docagent\.retriever\.service\.shards"),
    ],
)  # fmt: skip
def test_problems_name_the_offender(checked, overrides, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        checked(*overrides)


def test_a_search_server_that_does_not_answer(checked):
    with pytest.raises(InfrastructureError, match=rf"docagent\.retriever\.service\.url={NOBODY}"):
        checked(*HTTP)


def test_the_systems_section_may_be_taken_out(checked):
    """As for a system of a user's own, with a configuration of its own."""
    assert checked("~docagent.env").env == get_system("vrag_rl").small


@pytest.mark.slow
def test_a_search_server_of_another_store_is_refused(checked, world, tmp_path):
    with running(world.store, world.root / "index") as (_, url):
        own = [HTTP[0], f"docagent.retriever.service.url={url}", "docagent.retriever.index=/nowhere"]
        assert checked(*own).retriever.backend == "http"
    synthesize(tmp_path / "synthetic", SynthSettings(documents=1, seed=6))
    ingest(tmp_path / "synthetic" / "pdfs", tmp_path / "store", workers=1)
    other = DocumentStore(tmp_path / "store")
    BM25Retriever.build(other).save(tmp_path / "index")
    refused = pytest.raises(UserError, match=r"docagent\.retriever\.service: ")
    with running(other, tmp_path / "index") as (_, url), refused:
        checked(HTTP[0], f"docagent.retriever.service.url={url}")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [("record", None, r"x\.parquet: .*'record'"), ("agent_name", "mine", "agent_name 'mine'")],
)
def test_columns_that_are_not_as_they_should_be(checked, workspace, tmp_path, column, values, message):
    table = pq.read_table(workspace / "data" / "train.parquet")
    place = table.column_names.index(column)
    table = table.drop_columns([column])
    if values:
        table = table.add_column(place, column, pa.array([values] * len(table)))
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(UserError, match=message):
        checked(f"data.train_files={tmp_path / 'x.parquet'}")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("doc_id", "missing-report", "missing-report"), ("evidence_pages", (999,), "999")],
)
def test_data_that_do_not_fit_the_store(checked, world, tmp_path, field, value, message):
    record = dataclasses.replace(world.records[0], **{field: value}, evidence_boxes={})
    write_parquet([record], tmp_path / "x.parquet")
    with pytest.raises(UserError, match=message):
        checked(f"data.train_files={tmp_path / 'x.parquet'}")


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
