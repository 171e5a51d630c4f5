import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.manifest import sealing
from docagent_rl.commands.ingest import check_command, ingest_command
from docagent_rl.documents import PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import remove
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rollout.credit import CreditRow, write_credit
from docagent_rl.training.trainer.archive import write_lines, write_metrics
from tests.checkpoints.saved import flip, save
from tests.commands.conftest import called
from tests.documents.conftest import write_pdf


@pytest.fixture
def inbox(tmp_path):
    return write_pdf(tmp_path / "inbox" / "good.pdf", ["hello"]).parent


@pytest.fixture
def ingested(tmp_path):
    places = (tmp_path / "inbox", "--store", tmp_path / "store", "--workers", "1")
    return lambda *options, **expected: called(ingest_command, *places, *options, **expected).output


@pytest.fixture
def document(tmp_path):
    return lambda name="good": DocumentStore(tmp_path / "store").document(name)


def test_a_stored_document_is_replaced_when_asked_alone(inbox, ingested, document):
    assert "1 document ingested (1 page); 0 unchanged; 0 failed" in ingested("--dpi", "36")
    assert "1 unchanged" in ingested("--dpi", "36")
    told = ingested("--dpi", "72", status=2)
    assert "1 left" in told
    assert "good" in told
    assert document().page(1).size == (100, 50)
    assert "1 of them replaced" in ingested("--dpi", "72", "--replace")
    assert document().page(1).size == (200, 100)


def test_bad_files_are_listed_and_the_status_is_2(inbox, ingested, document):
    (inbox / "[red]bad.pdf").touch()
    assert "[red]bad.pdf" in ingested(status=2)
    assert document().page(1).text() == "hello"
    with pytest.raises(UserError, match=r"bad\.pdf"):
        ingested("--strict")


FAST = RenderSettings(dpi=10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("check")
    (root / "inbox").mkdir()
    for name, texts in {"report": ["alpha", "beta", "beta"], "other": ["gamma"]}.items():
        canvas = Canvas(str(root / "inbox" / f"{name}.pdf"), pagesize=(200, 100), invariant=True)
        for text in texts:
            canvas.drawString(10, 50, text)
            canvas.showPage()
        canvas.save()
    ingest(root / "inbox", root / "store", settings=FAST, workers=1)
    BM25Retriever.build(DocumentStore(root / "store")).save(root / "index")
    return root


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def check(*paths, status=0):
    return called(check_command, *paths, status=status).output.replace("\n", " ")


def test_whole_folders_have_status_0(folder, run):
    told = check(folder / "store", folder / "index")
    assert "2 documents, 4 pages, 6 objects; all intact" in told
    assert "an index of 4 pages (bm25); all intact" in told
    for path in (run, run / "checkpoints"):
        assert "3 checkpoints" in (told := check(path))
        assert "; all intact" in told
    assert "1 checkpoint; all intact" in check(run / "checkpoints" / "global_step_2")


def test_every_damaged_object_is_listed_with_its_pages(folder):
    store = DocumentStore(folder / "store")
    pages = [store.page(PageRef("report", n)) for n in (1, 2)]
    picture = store.objects.root / pages[0].image_hash[:2] / f"{pages[0].image_hash}.jpg"
    text = store.objects.root / pages[1].text_hash[:2] / f"{pages[1].text_hash}.txt.gz"
    picture.write_bytes(pages[1].image_bytes())
    text.unlink()
    told = check(folder / "store", status=1)
    for part in (
        picture,
        "[report#1 (image)]",
        text,
        "report#2 (text), report#3 (text)",
        "2 damaged",
    ):
        assert str(part) in told
    # the advice is good
    picture.unlink()
    ingest(folder / "inbox", folder / "store", settings=FAST, workers=1)
    check(folder / "store")
    assert DocumentStore(folder / "store").page(PageRef("report", 2)).text() == "beta"


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "run"
    Seal(run).write(run / "hydra" / "config.yaml", "docagent: {system: alden}\n")
    for step in (1, 2, 3):
        trajectories = [SimpleNamespace(question_id=f"q{n}", uid="u", number=0) for n in range(3)]
        write_lines(run, step, [(each, [b'{"reward": 1%d}' % step]) for each in trajectories])
        write_metrics(run, step, {"reward": step})
        write_credit(
            run, step, "grpo", [CreditRow("u", 0, 0, {"advantages": np.ones(3, np.float32) * step})]
        )
        with sealing(run, run / "checkpoints" / f"global_step_{step}"):
            save(run / "checkpoints", step)
    return run


def test_damage_of_a_run_is_listed_and_another_folder_refused(run, tmp_path):
    saved = run / "checkpoints"
    flip(saved / "global_step_2" / "data.pt")
    told = check(run, status=1)
    for part in ("global_step_2: data.pt: ", "1 damaged"):
        assert part in told
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match="other is neither"):
        check(tmp_path / "other")


def swapped(path):
    """Return another step's file in the place of one; it is well-formed and complete."""
    shutil.copy(path.with_name(path.name.replace("2", "1")), path)


def edited(old, new):
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path):
    path.write_bytes(b"")


DAMAGES = {
    "another text behind a text": (
        "store/objects/*/*.gz",
        lambda path: path.write_bytes(path.read_bytes() * 2),
    ),
    "a document is lost": ("store/documents/*.json", Path.unlink),
    "the list of documents is lost": ("store/seal.jsonl", Path.unlink),
    "the list of documents is edited": ("store/seal.jsonl", edited(b"report", b"repord")),
    "trajectories are cut": ("run/trajectories/2.jsonl", cut),
    "trajectories are lost": ("run/trajectories/2.jsonl", Path.unlink),
    "trajectories are another step's": ("run/trajectories/2.jsonl", swapped),
    "trajectories are added": (
        "run/trajectories/2.jsonl",
        lambda path: shutil.copy(path, path.with_name("4.jsonl")),
    ),
    "a trajectory is edited": ("run/trajectories/2.jsonl", edited(b"1", b"9")),
    "metrics are edited": ("run/metrics/2.json", edited(b"2", b"3")),
    "metrics are another step's": ("run/metrics/2.json", swapped),
    "metrics are empty": ("run/metrics/2.json", emptied),
    "metrics are lost": ("run/metrics/2.json", Path.unlink),
    "credit is another step's": ("run/credit/2.parquet", swapped),
    "credit is lost": ("run/credit/2.parquet", Path.unlink),
    "the configuration is edited": ("run/hydra/config.yaml", edited(b"alden", b"vrag_rl")),
    "the configuration is empty": ("run/hydra/config.yaml", emptied),
    "the configuration is lost": ("run/hydra/config.yaml", Path.unlink),
    "the tracker names another step": (
        "run/checkpoints/latest_checkpointed_iteration.txt",
        edited(b"3", b"2"),
    ),
    "a checkpoint is not finished": ("run/checkpoints/global_step_2/manifest.json", Path.unlink),
    "the seal is edited": ("run/seal.jsonl", edited(b'"whole"', b'"found"')),
    "the seal is empty": ("run/seal.jsonl", emptied),
    "the seal is lost": ("run/seal.jsonl", Path.unlink),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_named_with_its_file(folder, run, name):
    pattern, spoil = DAMAGES[name]
    shutil.copytree(run, folder / "run")
    path = sorted(folder.glob(pattern))[0]
    spoil(path)
    named = path.with_name("4.jsonl") if "added" in name else path
    named = path.parent if path.name == "manifest.json" else named
    told = check(folder / path.relative_to(folder).parts[0], status=1)
    assert str(named) in told
    assert "; 1 damaged" in told


def test_a_lost_document_is_named_and_comes_back_or_is_forgotten(folder):
    store = folder / "store"
    StoreLayout(store).manifest("report").unlink()
    assert "'report' is lost" in check(store, status=1)
    with pytest.raises(UserError, match="'report' is lost"):
        DocumentStore(store).document("report")
    ingest(folder / "inbox", store, settings=FAST, workers=1)
    check(store)
    StoreLayout(store).manifest("report").unlink()
    remove(store, ["report"])
    assert "1 document," in check(store)
    (store / "seal.jsonl").unlink()
    assert "seal.jsonl: is missing" in check(store, status=1)
    (folder / "inbox" / "report.pdf").unlink()
    ingest(folder / "inbox", store, settings=FAST, workers=1)
    assert "1 document," in check(store)


def test_what_a_kill_left_is_said_and_is_no_damage(run):
    file = run / "metrics" / "4.json"
    Seal(run).begin([file])  # as a process that is killed before it seals what it writes
    file.write_text("{}")
    told = check(run)
    assert f"{file} is not sealed: it was being written when the run ended" in told
    assert "all intact" not in told
    assert Seal(run).adopt() == ["metrics/4.json"]
    told = check(run)
    assert f"{file} was sealed as found by a later start" in told


def test_what_a_user_does_with_a_run_is_no_damage(run, tmp_path):
    saved = run / "checkpoints"
    shutil.move(saved / "global_step_1", tmp_path / "kept")
    told = check(run)
    assert f"{saved / 'global_step_1'} does not exist any more" in told
    shutil.move(tmp_path / "kept", saved / "global_step_1")
    copied = shutil.copytree(run, tmp_path / "elsewhere" / "copy")
    for other in (
        "view.sqlite",
        "wandb/run-1/files/config.yaml",
        "main_ppo.log",
        "checkpoints/merged/config.json",
    ):
        path = copied / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert "; all intact" in check(copied)
    shutil.rmtree(copied / "checkpoints")
    assert "; all intact" in check(copied)


def test_a_run_of_verl_alone_has_no_seal_and_that_is_said(run, tmp_path):
    save(tmp_path / "verl" / "checkpoints", 1, check=None)
    told = check(tmp_path / "verl")
    assert "global_step_1 has no manifest" in told
    assert "all intact" not in told
