from __future__ import annotations

import shutil

import pytest
from omegaconf import OmegaConf
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.checks.preflight import check
from docagent_rl.checks.recipe_check import composed
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.records.parquet import write_parquet
from docagent_rl.records.record import Record, Split
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.systems.vrag_rl.script import VragScript
from docagent_rl.tiny.demo import prepare_demo
from docagent_rl.tiny.workspace import DemoPaths, Owner

LOW = RenderSettings(dpi=40)
MODEL = "models/tiny_vrag_rl"


def pdf(path, pages):
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(300, 400))
    for page in range(pages):
        canvas.drawString(20, 200, f"The budget of department {page} of {path.stem} is {100 + page} people.")
        canvas.showPage()
    canvas.save()


def questions(count, split):
    for number in range(count):
        page = number % 8 + 1
        yield Record(
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
    ingest(paths.pdfs, paths.store, settings=LOW, workers=1)
    BM25Retriever.build(DocumentStore(paths.store)).save(paths.index)
    for split, count in ((Split.TRAIN, 16), (Split.VAL, 4)):
        write_parquet(questions(count, split), paths.data(split))
    return paths.workspace


@pytest.fixture
def paths(made, tmp_path, monkeypatch):
    """A copy, and a warm-up of one step."""
    brief = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}
    monkeypatch.setattr(VragScript, "warm_up", brief)
    return DemoPaths(shutil.copytree(made, tmp_path / "workspace"))


@pytest.fixture(scope="module")
def recipe():
    return composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])


@pytest.fixture
def checked(recipe):
    def run(paths, **changes):
        config = recipe.copy()
        for key, value in {"docagent.workspace": paths.workspace, **changes}.items():
            OmegaConf.update(config, key, str(value))
        return check(config)

    return run


def snapshot(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize(("count", "source"), [(16, "the run's own documents"), (4, "synthetic reports")])
def test_a_users_workspace_gets_the_tiny_model_and_nothing_else(
    paths, checked, capsys, tmp_path, count, source
):
    """Too few questions are helped out elsewhere; no model is made beside one of the user's."""
    write_parquet(questions(count, Split.TRAIN), paths.data(Split.TRAIN))
    before = snapshot(paths.workspace)
    checked(paths)
    after = snapshot(paths.workspace)
    assert {name: after[name] for name in before} == before
    assert {name.rpartition("/")[0] for name in after if name not in before} == {MODEL}
    assert paths.owner() is Owner.USER
    assert source in capsys.readouterr().err
    checked(paths)
    assert snapshot(paths.workspace) == after
    shutil.move(paths.model("vrag_rl"), tmp_path / "mine")
    checked(paths, **{"actor_rollout_ref.model.path": tmp_path / "mine"})
    assert not paths.model("vrag_rl").exists()


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("store", "docagent-rl ingest PDFS --store "),
        ("index", "docagent-rl index build --store "),
        ("data", "docagent-rl data convert QUESTIONS.jsonl --store "),
        ("data/val.parquet", "data.val_files: "),
    ],
)
def test_what_a_user_lacks_is_named_and_not_made(paths, checked, missing, command):
    gone = paths.workspace / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=str(paths.workspace)) as error:
        checked(paths)
    assert command in str(error.value)
    # the command that makes demos refuses it too
    with pytest.raises(UserError, match=str(paths.workspace)):
        prepare_demo(paths.workspace)
    assert snapshot(paths.workspace) == before


def test_a_stale_index_of_a_user_is_not_rebuilt(paths, checked):
    pdf(paths.pdfs / "gamma.pdf", 2)
    ingest(paths.pdfs, paths.store, settings=LOW, workers=1)
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=r"index build .*--force"):
        checked(paths)
    assert snapshot(paths.workspace) == before


@pytest.mark.slow
def test_everything_elsewhere_needs_the_model_alone(paths, checked, tmp_path):
    new = DemoPaths(tmp_path / "new")
    elsewhere = {
        "docagent.store": paths.store,
        "docagent.retriever.index": paths.index,
        "data.train_files": paths.data(Split.TRAIN),
        "data.val_files": paths.data(Split.VAL),
    }
    checked(new, **elsewhere)
    assert {name.rpartition("/")[0] for name in snapshot(new.workspace)} == {MODEL}


def test_one_file_elsewhere_is_no_reason_for_a_demo_beside_it(paths, checked, tmp_path):
    with pytest.raises(UserError, match=r"data\.train_files=") as error:
        checked(DemoPaths(tmp_path / "other"), **{"data.train_files": paths.data(Split.TRAIN)})
    assert "docagent.store: " in str(error.value)
    assert not (tmp_path / "other").exists()
