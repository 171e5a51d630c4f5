from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.checks.preflight import check
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.records.parquet import write_parquet
from docagent_rl.records.record import Record, Split
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.tiny.demo import prepare_demo
from docagent_rl.tiny.workspace import DemoPaths, Owner

COUNTS = {Split.TRAIN: 16, Split.VAL: 4}


def pdf(path: Path, pages: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(300, 400))
    for page in range(pages):
        canvas.drawString(20, 200, f"The budget of department {page} of {path.stem} is {100 + page} people.")
        canvas.showPage()
    canvas.save()


def question(number: int, split: Split) -> Record:
    page = number % 8 + 1
    return Record(
        f"{split.value}-{number}",
        "mine",
        split,
        ("alpha", "beta")[number % 2],
        f"What is the budget of department {page - 1}, asked {number} times?",
        (str(99 + page),),
        evidence_pages=(page,),
        extra={"gold": None, "num_pages": 8, "native_id": None, "row": number},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A workspace as a user makes it: two PDFs, 16 questions to train on and 4 for validation."""
    paths = DemoPaths(tmp_path_factory.mktemp("made") / "workspace")
    for name in ("alpha", "beta"):
        pdf(paths.pdfs / f"{name}.pdf", 8)
    ingest(paths.pdfs, paths.store, settings=RenderSettings(dpi=40), workers=1)
    BM25Retriever.build(DocumentStore(paths.store)).save(paths.index)
    for split, count in COUNTS.items():
        write_parquet([question(number, split) for number in range(count)], paths.data(split))
    return paths.workspace


@pytest.fixture
def paths(made, tmp_path):
    shutil.copytree(made, tmp_path / "workspace")
    return DemoPaths(tmp_path / "workspace")


def checked(paths, *overrides):
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        options = ["+profile=cpu", f"docagent.workspace={paths.workspace}", *overrides]
        return check(compose("vrag_rl_qwen2_5_vl_7b", overrides=options))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def brief(monkeypatch):
    """A warm-up of one step."""
    from docagent_rl.systems.vrag_rl.script import VragScript

    steps = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}
    monkeypatch.setattr(VragScript, "warm_up", steps)


def test_a_users_workspace_gets_the_tiny_model_and_nothing_else(paths, brief, capsys):
    before = snapshot(paths.workspace)
    checked(paths)
    after = snapshot(paths.workspace)
    added = {name for name in after if name not in before}
    assert {name: after[name] for name in before} == before
    assert {name.rpartition("/")[0] for name in added} == {"models/tiny_vrag_rl"}
    assert paths.owner() is Owner.USER
    assert "warmed up on the run's own documents" in capsys.readouterr().err
    model = snapshot(paths.model("vrag_rl"))
    checked(paths)
    assert snapshot(paths.model("vrag_rl")) == model


def test_too_few_questions_are_helped_out_elsewhere(paths, brief, capsys):
    few = [question(number, Split.TRAIN) for number in range(4)]
    write_parquet(few, paths.data(Split.TRAIN))
    before = snapshot(paths.workspace)
    checked(paths)
    after = snapshot(paths.workspace)
    assert {name.rpartition("/")[0] for name in after if name not in before} == {"models/tiny_vrag_rl"}
    assert "warmed up on synthetic reports" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("store", "docagent-rl ingest PDFS --store "),
        ("index", "docagent-rl index build --store "),
        ("data", "docagent-rl data convert QUESTIONS.jsonl --store "),
        ("data/val.parquet", "data.val_files: "),
    ],
)
def test_what_a_user_lacks_is_named_and_not_made(paths, missing, command):
    gone = paths.workspace / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=str(paths.workspace)) as error:
        checked(paths)
    assert command in str(error.value)
    assert snapshot(paths.workspace) == before


def test_the_demo_command_refuses_a_users_workspace(paths):
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=str(paths.workspace)):
        prepare_demo(paths.workspace)
    assert snapshot(paths.workspace) == before


def test_a_stale_index_of_a_user_is_not_rebuilt(paths):
    pdf(paths.pdfs / "gamma.pdf", 2)
    ingest(paths.pdfs, paths.store, settings=RenderSettings(dpi=40), workers=1)
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=r"index build .*--force"):
        checked(paths)
    assert snapshot(paths.workspace) == before


def test_everything_elsewhere_needs_the_model_alone(paths, tmp_path, brief):
    new = DemoPaths(tmp_path / "new")
    elsewhere = [
        f"docagent.store={paths.store}",
        f"docagent.retriever.index={paths.index}",
        f"data.train_files={paths.data(Split.TRAIN)}",
        f"data.val_files={paths.data(Split.VAL)}",
    ]
    checked(new, *elsewhere)
    assert [path.name for path in new.workspace.iterdir()] == ["models"]
    # one of them alone is no reason for a demo beside it
    with pytest.raises(UserError, match=r"data\.train_files=") as error:
        checked(DemoPaths(tmp_path / "other"), elsewhere[2])
    assert "docagent.store: " in str(error.value)
    assert not (tmp_path / "other").exists()


def test_no_tiny_model_is_made_beside_one_of_the_users(paths, brief, tmp_path):
    checked(paths)
    mine = tmp_path / "mine"
    shutil.move(paths.model("vrag_rl"), mine)
    checked(paths, f"actor_rollout_ref.model.path={mine}")
    assert not paths.model("vrag_rl").exists()
