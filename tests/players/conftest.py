"""The two corpora that all systems are played on."""

import dataclasses

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.documents.store import Page
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.lab.synth.settings import QuestionKind
from tests.corpus import CountingJudge
from tests.players.corpus import INJECTIONS, LIE, Corpus, open_corpus, poison, write_reports


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Corpus:
    """Return the reports as they were written."""
    folder = tmp_path_factory.mktemp("library")
    questions = write_reports(folder)
    assert {sample.extra["kind"] for sample in questions} == {*QuestionKind}
    assert sum(len(sample.evidence_pages) > 1 for sample in questions) >= 5
    return open_corpus(folder / "pdfs", folder / "store", questions)


@pytest.fixture(scope="session")
def hostile(library, tmp_path_factory) -> Corpus:
    """Return the same reports with injections on every page, which name the right answer if there
    is one.
    """
    folder = tmp_path_factory.mktemp("hostile")
    poison(library.store.path.parent / "pdfs", folder / "pdfs")
    # the pages say what is right: whoever took their text for the agent's would pay for it
    questions = [
        dataclasses.replace(r, answers=(LIE,)) if r.answers else r for r in library.questions
    ]
    corpus = open_corpus(folder / "pdfs", folder / "store", questions)
    for page in corpus.words:
        text = " ".join(corpus.store.page(PageRef(*page)).text().split())
        assert [line for line in INJECTIONS if " ".join(line.split()) not in text] == []
    return corpus


@pytest.fixture
def clerk() -> CountingJudge:
    return CountingJudge()


@pytest.fixture
def services(library, clerk) -> EnvServices:
    return EnvServices(library.store, RetrieverService(library.retriever), clerk)


@pytest.fixture(autouse=True)
def no_pixels(monkeypatch) -> None:
    """Let every trajectory fail that decodes a page, since environments pass on only references."""

    def refuse(self: Page) -> bytes:
        raise AssertionError(f"somebody looked at the pixels of {self.ref}")

    monkeypatch.setattr(Page, "image", refuse)
    monkeypatch.setattr(Page, "image_bytes", refuse)
