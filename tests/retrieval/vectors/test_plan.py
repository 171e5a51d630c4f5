from __future__ import annotations

import hashlib
from itertools import accumulate, chain, combinations
from random import Random

import pytest

from docagent_rl.documents import PageContent
from docagent_rl.retrieval.vectors import plan
from docagent_rl.retrieval.vectors.header import Kind, ShardHeader, Source, StoredDocument
from docagent_rl.retrieval.vectors.plan import make_plan
from docagent_rl.retrieval.vectors.shards import Shard

SOURCE = Source(kind=Kind.LATE_INTERACTION, encoder="a" * 64, content=PageContent.TEXT, dim=4)


def document(name, pages=3, version=0):
    return StoredDocument(doc_id=name, pages=pages, digest=f"{version:064}")


def shard(*documents):
    files = {"vectors.bin": "b" * 64, "offsets.bin": "c" * 64}
    header = ShardHeader(source=SOURCE, vectors=1, documents=documents, files=files)
    digest = hashlib.sha256(header.sealed().encode()).hexdigest()
    return Shard(f"shard-{digest[:16]}", digest, header)


A, B, C, D, E, F = (document(name) for name in "abcdef")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(plan, "PAGES_A_SHARD", 6)


def test_a_fresh_index_takes_documents_in_order_and_a_long_one_alone():
    long = document("c", pages=50)
    found = make_plan([A, B, long, D, E, F], [], [])
    assert found.encoded == [(A, B), (long,), (D, E), (F,)]
    assert (found.kept, found.shards, found.copied) == ({}, [], [])


def test_a_build_that_goes_on_makes_the_shards_of_the_first_attempt():
    wanted = [A, B, C, D, E, F]
    groups = make_plan(wanted, [], []).encoded
    for finished in chain.from_iterable(combinations(groups, number) for number in range(4)):
        done = [shard(*group) for group in finished]
        found = make_plan(wanted, [], done)
        assert found.encoded == [group for group in groups if group not in finished]
        assert found.shards == done


def test_what_has_not_changed_stays():
    first, second = shard(A, B), shard(C, D)
    newer = document("d", pages=3, version=1)
    found = make_plan([A, B, C, newer, E], [first, second], [])
    assert found.encoded == [(newer, E)]
    # half of the second is dead
    assert (found.shards, found.copied) == ([first], [(C,)])
    assert found.sources == {"c": (second, 0)}
    assert found.kept == {"a": (0, 0), "b": (0, 3)}
    # little dead is left
    whole = shard(*(document(name, pages=10) for name in "abcde"))
    found = make_plan([document(name, pages=10) for name in "abde"], [whole], [])
    assert (found.shards, found.copied, found.encoded, found.kept["d"]) == ([whole], [], [], (0, 30))


@pytest.mark.parametrize("seed", range(10))
def test_every_document_comes_from_one_place(seed):
    random = Random(seed)

    def some():
        return [
            document(f"{n:02}", pages=n % 4 + 1, version=random.choice([0, 0, 0, 1]))
            for n in sorted(random.sample(range(40), 25))
        ]

    current = [shard(*group) for group in make_plan(some(), [], []).encoded]
    finished = [shard(*group) for group in make_plan(some(), [], []).encoded[::2]]
    wanted = some()
    found = make_plan(wanted, current, finished)
    placed = [*found.kept, *(d.doc_id for group in (*found.copied, *found.encoded) for d in group)]
    assert sorted(placed) == [d.doc_id for d in wanted]
    for doc_id, (position, first) in found.kept.items():
        documents = found.shards[position].header.documents
        starts = accumulate((one.pages for one in documents), initial=0)
        (kept,) = [one for one, start in zip(documents, starts, strict=False) if start == first]
        assert kept in wanted
        assert kept.doc_id == doc_id
