"""A probe changes documents, and keeps some scores."""

import dataclasses
import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.eval.choices import ProbeCondition
from docagent_rl.lab.eval.probe import (
    compare_conditions,
    evidence,
    partners,
    probe_json,
    probe_tables,
    share_of,
    shown_store,
)
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from tests.lab.eval.report.scores import scored


@pytest.fixture
def made(world, tmp_path):
    def make(condition, **more):
        return DocumentStore(shown_store(condition, world.store, world.samples, tmp_path, **more))

    return make


def white(page):
    return page.image().getextrema() == ((255, 255),) * 3


@pytest.mark.parametrize(
    ("condition", "texts"), [(ProbeCondition.BLANK, False), (ProbeCondition.TEXT_LAYER, True)]
)
def test_white_pages_with_and_without_texts(world, made, condition, texts):
    store = made(condition)
    assert store.doc_ids() == world.store.doc_ids()
    for ref in list(world.store.pages())[::5]:
        page = store.page(ref)
        assert white(page)
        assert page.text() == (world.store.page(ref).text() if texts else "")


def test_pages_with_evidence_alone_are_taken_away(world, made):
    store, gold = made(ProbeCondition.NO_EVIDENCE), evidence(world.samples)
    for ref in list(world.store.pages())[::3] + sorted(gold, key=str)[:5]:
        old, new = world.store.page(ref), store.page(ref)
        kept = (new.image_hash, new.text()) == (old.image_hash, old.text())
        assert (kept, white(new) and new.text() == "") == (ref not in gold, ref in gold)
    for doc_id in store.doc_ids():
        assert not any(
            PageRef(doc_id, e.page) in gold for e in store.document(doc_id).outline if e.page
        )


def test_pages_of_another_document_stand_in_their_places(world, made):
    store, others = made(ProbeCondition.SHUFFLED, seed=3), partners(world.store.doc_ids(), 3)
    for doc_id, other in others.items():
        there = world.store.document(other)
        for number in range(1, store.document(doc_id).num_pages + 1):
            old, new = (
                there.page((number - 1) % there.num_pages + 1),
                store.document(doc_id).page(number),
            )
            assert (new.image_hash, new.text()) == (old.image_hash, old.text())


def test_a_store_is_made_once_for_the_same_documents_and_evidence(world, tmp_path):
    assert shown_store(ProbeCondition.AS_IS, world.store, world.samples, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    arguments = (ProbeCondition.NO_EVIDENCE, world.store, world.samples, tmp_path)
    first = shown_store(*arguments)
    changed = first.stat().st_mtime_ns
    assert shown_store(*arguments) == first
    assert first.stat().st_mtime_ns == changed
    assert (
        shown_store(ProbeCondition.NO_EVIDENCE, world.store, world.samples[:1], tmp_path) != first
    )


def test_what_cannot_be_done_is_refused(world, tmp_path):
    without = [dataclasses.replace(r, evidence_pages=(), extra={}) for r in world.samples[:2]]
    with pytest.raises(UserError, match="no_evidence"):
        shown_store(ProbeCondition.NO_EVIDENCE, world.store, without, tmp_path)
    with pytest.raises(UserError, match="shuffled"):
        partners(["only"], 0)


def left(as_is, blank):
    name = protocol_of("slidevqa").headline.value
    runs = {
        condition: [
            scored(n, 0, dataset="slidevqa", values={name: value}) for n, value in enumerate(values)
        ]
        for condition, values in ((ProbeCondition.AS_IS, as_is), (ProbeCondition.BLANK, blank))
    }
    return compare_conditions(runs, draws=200)


def test_shares_and_changes_and_their_table():
    found = left((1.0, 1.0, 0.0, 0.5), (0.0, 0.5, 0.0, 0.5))
    whole, blank = found["slidevqa"].values()
    assert (whole.second, share_of(whole)) == (0.625, 1.0)
    assert (blank.second, blank.gain.value, blank.gain.questions) == (0.25, -0.375, 4)
    assert blank.gain.low <= -0.375 <= blank.gain.high
    (grid,) = probe_tables(found)
    assert [row[:2] for row in grid.rows] == [("as_is", "62.5"), ("blank", "25.0")]
    assert grid.rows[1][2].startswith("-37.5 [")
    assert grid.rows[1][3] == "40 %"
    assert json.loads(probe_json(found))["left"][1]["share"] == pytest.approx(0.4)
