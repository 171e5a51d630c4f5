from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from transformers import AutoConfig

from docagent_rl.commands.demo import _systems
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.records.parquet import read_parquet, write_parquet
from docagent_rl.records.record import Split
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.synth import SynthSettings
from docagent_rl.synth.settings import Difficulty
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.tiny.demo import ASKED, DemoPaths, claim, prepare_demo

pytestmark = pytest.mark.slow

REPORTS = SynthSettings(documents=4, seed=5, difficulties=(Difficulty.EASY,))
EXAMPLES = Path(__file__).parents[2] / "examples"
BRIEF = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("demo") / "workspace"

    def make(system, **more):
        return prepare_demo(workspace, system=system, warm_up=BRIEF, synthetic=REPORTS, **more)

    return make


def test_each_system_has_a_model_of_its_own(demo):
    report = demo("alden")
    paths = report.paths
    assert paths.missing("alden") == []
    assert paths.missing("mm_doc_r1") == [paths.workspace / "models" / "tiny_mm_doc_r1" / "config.json"]
    assert report.documents == 4
    assert report.questions["train"] > 0

    before = (paths.model("alden") / "model.safetensors").stat()
    demo("mm_doc_r1")
    demo("alden")
    assert paths.missing("mm_doc_r1") == []
    assert (paths.model("alden") / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert AutoConfig.from_pretrained(paths.model("alden")).model_type == "qwen2_5_vl"
    weights = {(paths.model(name) / "model.safetensors").read_bytes() for name in ("alden", "mm_doc_r1")}
    assert len(weights) == 2


def test_questions_to_train_on_are_of_the_easy_kinds(demo):
    paths = demo("alden").paths
    records = read_parquet(paths.data(Split.TRAIN))
    kinds = Counter(r.extra.get("kind", r.dataset) for r in records)
    assert {"sections"} < set(kinds) <= {*ASKED, "sections"}
    # four pages and the like: as many as there are usable bookmarks
    assert kinds["sections"] > len({r.doc_id for r in records})
    assert len({r.question_id for r in records}) == len(records)
    validation = read_parquet(paths.data(Split.VAL))
    assert {r.extra["kind"] for r in validation} - ASKED
    assert all(r.gold_pages for r in (*records, *validation))


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_play_every_question(name, demo):
    paths = demo("alden").paths
    system = get_system(name)
    config = system.parse_config(system.small)
    retriever = RetrieverService(BM25Retriever.load(paths.index))
    services = EnvServices(DocumentStore(paths.store), retriever, RuleJudge())
    prompt = system.load_prompt(config)

    async def begin():
        for split in (Split.TRAIN, Split.VAL):
            for record in read_parquet(paths.data(split)):
                env = system.env(config, services, prompt, validate=split is Split.VAL)
                yield await env.reset(record)

    async def run():
        return [observation async for observation in begin()]

    assert all(observation.messages for observation in asyncio.run(run()))


def test_a_pdf_that_cannot_be_read_is_named(tmp_path, demo):
    pdfs = tmp_path / "pdfs"
    pdfs.mkdir()
    (pdfs / "broken.pdf").write_bytes(b"no PDF")
    with pytest.raises(UserError, match=r"broken\.pdf"):
        demo("alden", pdfs=pdfs)


def test_the_environment_is_the_runs_own(demo):
    with pytest.raises(UserError, match=r"docagent\.env\.max_turns"):
        demo("alden", env={"max_turns": 0})


def test_a_system_without_a_script_borrows_a_model(demo, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    paths = demo("custom_system:SYSTEM", env={"max_image_tokens": 80}).paths
    assert paths.missing("custom_system:SYSTEM") == []


def test_an_empty_workspace_lacks_everything(tmp_path):
    assert len(DemoPaths(tmp_path).missing("vrag_rl")) == 5


def test_systems_of_the_command():
    assert _systems(["all"]) == list(SYSTEMS)
    assert _systems(["alden", "alden", "vrag_rl"]) == ["alden", "vrag_rl"]
    with pytest.raises(UserError, match="'alder'"):
        _systems(["alder"])


def pdf(path, title):
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(300, 400))
    for chapter in ("Beginning", "Middle", "Ending"):
        canvas.bookmarkPage(chapter)
        canvas.addOutlineEntry(f"{chapter} of {title}", chapter)
        canvas.drawString(20, 200, f"{chapter} of {title}")
        canvas.showPage()
    canvas.save()


def make(workspace, **more):
    return prepare_demo(workspace, system="vrag_rl", warm_up=BRIEF, synthetic=REPORTS, **more)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("done") / "workspace"
    make(workspace)
    return workspace


@pytest.fixture
def paths(done, tmp_path):
    shutil.copytree(done, tmp_path / "workspace")
    return DemoPaths(tmp_path / "workspace")


def test_an_interrupted_demo_is_completed(paths, done):
    shutil.rmtree(paths.index)
    shutil.rmtree(paths.workspace / "models")
    paths.data(Split.VAL).unlink()
    manifests = sorted((paths.store / "documents").rglob("*.json"))
    manifests[0].unlink()
    kept = paths.data(Split.TRAIN).stat().st_mtime_ns
    make(paths.workspace)
    assert paths.missing("vrag_rl") == []
    for split in (Split.TRAIN, Split.VAL):
        assert paths.data(split).read_bytes() == DemoPaths(done).data(split).read_bytes()
    assert paths.data(Split.TRAIN).stat().st_mtime_ns == kept


def test_pdfs_put_into_a_demo_are_asked_about(paths):
    before = len(read_parquet(paths.data(Split.TRAIN)))
    model = (paths.model("vrag_rl") / "model.safetensors").stat().st_mtime_ns
    pdf(paths.pdfs / "mine.pdf", "my own report")
    report = make(paths.workspace)
    assert report.documents == 5
    assert report.kept == ()
    asked = [r for r in read_parquet(paths.data(Split.TRAIN)) if r.doc_id == "mine"]
    assert len(asked) == 3
    assert len(read_parquet(paths.data(Split.TRAIN))) == before + 3
    BM25Retriever.load(paths.index).check(DocumentStore(paths.store))
    assert (paths.model("vrag_rl") / "model.safetensors").stat().st_mtime_ns == model


def test_pdfs_of_an_earlier_call_stay_asked_about(paths, tmp_path):
    pdf(tmp_path / "reports" / "mine.pdf", "my own report")
    make(paths.workspace, pdfs=tmp_path / "reports")
    before = paths.data(Split.TRAIN).read_bytes()
    make(paths.workspace)
    assert paths.data(Split.TRAIN).read_bytes() == before


def test_questions_that_were_changed_are_left_alone(paths):
    mine = read_parquet(paths.data(Split.TRAIN))[:3]
    write_parquet(mine, paths.data(Split.TRAIN))
    pdf(paths.pdfs / "mine.pdf", "my own report")
    report = make(paths.workspace)
    assert read_parquet(paths.data(Split.TRAIN)) == mine
    assert report.kept == (paths.data(Split.TRAIN),)
    assert report.questions["train"] == 3
    assert "is not the demo's and was left as it is" in report.describe()


def test_a_workspace_with_pdfs_alone_becomes_a_demo(tmp_path):
    paths = DemoPaths(tmp_path / "workspace")
    claim(paths.workspace)
    pdf(paths.pdfs / "mine.pdf", "my own report")
    before = (paths.pdfs / "mine.pdf").read_bytes()
    assert make(paths.workspace).documents == 5
    paths.marker.unlink()
    with pytest.raises(UserError, match="is yours"):
        claim(paths.workspace)
    shutil.rmtree(paths.workspace / "store")
    shutil.rmtree(paths.workspace / "index")
    shutil.rmtree(paths.workspace / "data")
    shutil.rmtree(paths.workspace / "synthetic")
    claim(paths.workspace)
    assert (paths.pdfs / "mine.pdf").read_bytes() == before
