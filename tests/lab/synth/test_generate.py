import dataclasses
import hashlib
from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.synth import DocumentDifficulty, SynthSettings, layout, synthesize
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.validation import validate_file

SETTINGS = SynthSettings(
    documents=5, seed=1, questions_per_document=4, difficulties=(DocumentDifficulty.EASY,)
)


def digests(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synth") / "corpus"
    assert synthesize(out, SETTINGS)
    return out


def test_the_corpus_is_complete_and_each_document_in_one_split(corpus):
    samples = read_questions(corpus / "samples.jsonl")
    pdfs = {path.stem for path in (corpus / "pdfs").iterdir()}
    assert [sample.extra["row"] for sample in samples] == list(range(20))
    assert validate_file(corpus / "samples.jsonl").problems == []
    assert set(digests(corpus)) == {
        *(f"pdfs/{name}.pdf" for name in pdfs),
        "samples.jsonl",
        "synth.json",
    }
    splits = {(sample.doc_id, sample.split) for sample in samples}
    assert {doc_id for doc_id, _ in splits} == pdfs
    assert sorted(split.value for _, split in splits) == ["test", "train", "train", "train", "val"]


def test_a_complete_corpus_is_left_alone(corpus):
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}
    assert not synthesize(corpus, SETTINGS)
    changes = {
        "seed": 9,
        "documents": 4,
        "questions_per_document": 3,
        "difficulties": tuple(DocumentDifficulty),
    }
    for name, value in changes.items():
        with pytest.raises(UserError, match='"seed": 1'):
            synthesize(corpus, dataclasses.replace(SETTINGS, **{name: value}))
    assert before == {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}


def test_the_seed_alone_decides_the_bytes(corpus, tmp_path):
    assert synthesize(tmp_path / "again", SETTINGS)
    assert digests(tmp_path / "again") == digests(corpus)
    settings = dataclasses.replace(SETTINGS, documents=2, seed=2)
    synthesize(tmp_path / "other", settings)
    assert not {name for name in digests(corpus) if name.endswith("pdf")} & set(
        digests(tmp_path / "other")
    )


def test_an_interrupted_corpus_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(plan: DocumentPlan) -> layout.Rendered:
        raise KeyboardInterrupt

    monkeypatch.setattr(layout, "render_document", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthesize(tmp_path / "corpus", SETTINGS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "content"), [("thesis.txt", "precious"), ("synth.json", "{")])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=tmp_path.name):
        synthesize(tmp_path, SETTINGS)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, content)]


@pytest.mark.parametrize("wrong", [{"documents": 0}, {"questions_per_document": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        SynthSettings(**wrong)
