import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.batches import Batches
from docagent_rl.retrieval.vectors import encoding
from docagent_rl.retrieval.vectors.encoding import EncoderFacts, page_batches
from docagent_rl.retrieval.vectors.index import stored_documents


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


def test_rasters_that_are_prepared_together_are_bounded(leaflets, monkeypatch):
    encoder = EncoderFacts(PageContent.IMAGE, 4, "0" * 64, {}, batch_size=2)
    documents = list(stored_documents(leaflets, encoder.content))
    assert [len(batch) for batch in page_batches(leaflets, documents, encoder)] == [8, 8, 4]
    width, height = leaflets.page(next(iter(leaflets.pages()))).size
    monkeypatch.setattr(encoding, "_RASTERS", 3 * 3 * width * height)
    assert {len(batch) for batch in page_batches(leaflets, documents, encoder)} == {3, 2}
