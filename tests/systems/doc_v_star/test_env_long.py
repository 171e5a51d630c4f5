"""Documents whose overview exceeds the prompt."""

from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from tests.systems.doc_v_star.play import texts

LIMIT = 8192
LENGTHS = {"tiny": 3, "short": 36, "long": 130, "longer": 300}


class LongStore(DocumentStore):
    """A store of documents that repeat one page of a real document."""

    def manifest(self, doc_id):
        page = super().manifest("R").pages[0]
        return replace(super().manifest("R"), doc_id=doc_id, pages=(page,) * LENGTHS[doc_id])

    def __contains__(self, doc_id):
        return doc_id in LENGTHS


@pytest.fixture
def long_store(report_store):
    return LongStore(report_store.path)


@pytest.fixture
def open_env(env_of, services, long_store, sample):
    def make(doc_id, *, limit=LIMIT, question="Where?", **overrides):
        long = replace(services, store=long_store, prompt_tokens=limit)
        env = env_of(services=long, **overrides)
        return env, env.opening(sample(doc_id=doc_id, question=question, evidence_pages=(2,)))

    return make


def labels(prompt):
    return [int(label.text) for image in prompt.images for label in image.labels]


@pytest.mark.parametrize(
    ("doc_id", "limit", "cell", "stride"),
    [
        ("short", None, 256, 1),
        ("short", LIMIT, 256, 1),
        ("long", LIMIT, 172, 1),
        ("longer", 3000, 88, 2),
    ],
)
def test_thumbnails_shrink_and_then_pages_are_left_out(open_env, doc_id, limit, cell, stride):
    env, prompt = open_env(doc_id, limit=limit)
    metrics, adapted = env.metrics(), cell < 256
    assert labels(prompt) == list(range(1, LENGTHS[doc_id] + 1, stride))
    assert (metrics["overview/cell_px"], metrics["overview/adapted"]) == (cell, adapted)
    assert (metrics["overview/pages"], metrics["overview/sheets"]) == (
        len(labels(prompt)),
        len(prompt.images),
    )
    assert f"{cell} px" in env.adapted() if adapted else env.adapted() is None
    assert ("one page in 2" in texts(prompt)) == ("150 of 300" in texts(prompt)) == (stride == 2)


def test_what_cannot_fit_is_refused_with_the_document(open_env):
    with pytest.raises(UserError, match=r"'tiny', 3 .* 600 "):
        open_env("tiny", limit=600, question="why? " * 500)
