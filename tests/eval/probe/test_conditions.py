"""What is done to documents."""

import dataclasses

import pytest

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.errors import UserError
from docagent_rl.eval.probe.conditions import Condition, evidence, partners, shown_store


@pytest.fixture
def made(world, tmp_path):
    def make(condition, **more):
        return DocumentStore(shown_store(condition, world.store, world.records, tmp_path, **more))

    return make


def white(page):
    return page.image().getextrema() == ((255, 255),) * 3


def test_as_is_nothing_is_made(world, tmp_path):
    assert shown_store(Condition.AS_IS, world.store, world.records, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("condition", "texts"), [(Condition.BLANK, False), (Condition.TEXT_LAYER, True)])
def test_white_pages_with_and_without_texts(world, made, condition, texts):
    store = made(condition)
    assert store.doc_ids() == world.store.doc_ids()
    for ref in list(world.store.pages())[::5]:
        page = store.page(ref)
        assert white(page)
        assert page.text() == (world.store.page(ref).text() if texts else "")


def test_pages_with_evidence_alone_are_taken_away(world, made):
    store, gold = made(Condition.NO_EVIDENCE), evidence(world.records)
    for ref in list(world.store.pages())[::3] + sorted(gold, key=str)[:5]:
        old, new = world.store.page(ref), store.page(ref)
        kept = (new.image_hash, new.text()) == (old.image_hash, old.text())
        assert (kept, white(new) and new.text() == "") == (ref not in gold, ref in gold)
    for doc_id in store.doc_ids():
        assert not any(PageRef(doc_id, e.page) in gold for e in store.document(doc_id).outline if e.page)


def test_pages_of_another_document_stand_in_their_places(world, made):
    store, others = made(Condition.SHUFFLED, seed=3), partners(world.store.doc_ids(), 3)
    for doc_id, other in others.items():
        there = world.store.document(other)
        for number in range(1, store.document(doc_id).num_pages + 1):
            old, new = there.page((number - 1) % there.num_pages + 1), store.document(doc_id).page(number)
            assert (new.image_hash, new.text()) == (old.image_hash, old.text())


@pytest.mark.parametrize("seed", range(5))
def test_every_document_is_taken_once_and_none_its_own(seed):
    ids = [f"d{number}" for number in range(2 + seed)]
    found = partners(ids, seed)
    assert sorted(found) == sorted(found.values()) == ids
    assert all(own != other for own, other in found.items())


def test_a_store_is_made_once_for_the_same_documents_and_evidence(world, tmp_path):
    arguments = (Condition.NO_EVIDENCE, world.store, world.records, tmp_path)
    first = shown_store(*arguments)
    changed = first.stat().st_mtime_ns
    assert shown_store(*arguments) == first
    assert first.stat().st_mtime_ns == changed
    assert shown_store(Condition.NO_EVIDENCE, world.store, world.records[:1], tmp_path) != first


def test_what_cannot_be_done_is_refused(world, tmp_path):
    without = [dataclasses.replace(r, evidence_pages=(), extra={}) for r in world.records[:2]]
    with pytest.raises(UserError, match="no_evidence"):
        shown_store(Condition.NO_EVIDENCE, world.store, without, tmp_path)
    with pytest.raises(UserError, match="shuffled"):
        partners(["only"], 0)
