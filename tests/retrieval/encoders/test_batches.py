from __future__ import annotations

import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageContent
from docagent_rl.retrieval.encoders.batches import Batches
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.retrieval.vectors import encoding
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.encoding import EncoderFacts, PageVectors, page_batches
from docagent_rl.retrieval.vectors.index import Kind, VectorIndex, stored_documents
from tests.retrieval.encoders.conftest import MINILM


class Memory:
    """Holds this many of a batch's items, and remembers the batches that it was given."""

    def __init__(self, room):
        self.room, self.batches = room, []

    def __call__(self, batch):
        self.batches.append(batch)
        if len(batch) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [item * item for item in batch]


def test_the_heaviest_share_a_batch_and_results_come_in_order():
    memory = Memory(9)
    assert Batches(2, "m").run([3, 1, 5, 2], lambda item: item, memory) == [9, 1, 25, 4]
    assert memory.batches == [[5, 3], [2, 1]]


def test_batches_are_halved_where_memory_is_short_and_stay_so():
    memory, batches = Memory(2), Batches(8, "m")
    assert batches.run(range(9), lambda _: 0, memory) == [number**2 for number in range(9)]
    assert [len(batch) for batch in memory.batches] == [8, 4, 2, 2, 2, 2, 1]
    assert batches.size == 2
    with pytest.raises(UserError, match=r"m: .*one page"):
        batches.run([1], lambda _: 0, Memory(0))


@pytest.fixture
def leaflets(make_store, tmp_path):
    return make_store(tmp_path, {f"leaflet{n:02}": [f"page {n} tells of cats"] for n in range(20)})


@pytest.mark.parametrize(("size", "passes"), [(8, [8, 8, 4]), (64, [20])])
def test_documents_of_one_page_fill_the_models_batches(leaflets, tmp_path, size, passes):
    encoder, sizes = open_encoder(MINILM, batch_size=size), []
    encoder._model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0]["input_ids"])))
    build_index(leaflets, PageVectors(lambda: encoder), tmp_path / "index", kind=Kind.DENSE)
    assert sizes == passes
    for ref in (next(iter(leaflets.pages())), *list(leaflets.pages())[-1:]):
        (alone,) = encoder.encode_pages([leaflets.page(ref).text()])
        index = VectorIndex.open(tmp_path / "index")
        row = index.rows.rows([ref])[0]
        stored = index.bank.vectors[index.bank.offsets[row] : index.bank.offsets[row + 1]].float().numpy()
        assert stored == pytest.approx(alone, abs=4e-3)  # bfloat16


def test_rasters_that_are_prepared_together_are_bounded(leaflets, monkeypatch):
    encoder = EncoderFacts(PageContent.IMAGE, 4, "0" * 64, {}, batch_size=2)
    documents = list(stored_documents(leaflets, encoder.content))
    assert [len(batch) for batch in page_batches(leaflets, documents, encoder)] == [8, 8, 4]
    width, height = leaflets.page(next(iter(leaflets.pages()))).size
    monkeypatch.setattr(encoding, "_RASTERS", 3 * 3 * width * height)
    assert {len(batch) for batch in page_batches(leaflets, documents, encoder)} == {3, 2}
