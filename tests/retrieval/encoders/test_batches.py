import threading
from itertools import islice

import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.batches import AHEAD, Batches


class Memory:
    """A device with memory for this many of a batch's items, which records its batches."""

    def __init__(self, room):
        self.room, self.batches = room, []

    def __call__(self, batch):
        self.batches.append(batch)
        if len(batch) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [item * item for item in batch]

    def work(self, batch, prepared):
        assert prepared == [str(item) for item in batch]
        return self(batch)

    def stream(self, batches, groups):
        return batches.stream(
            groups, lambda item: item, lambda batch: [str(item) for item in batch], self.work
        )


def test_the_heaviest_share_a_batch_and_results_come_in_order():
    memory = Memory(9)
    assert Batches(2, "m").run([3, 1, 5, 2], lambda item: item, memory) == [9, 1, 25, 4]
    assert memory.batches == [[5, 3], [2, 1]]


def test_batches_are_halved_where_memory_is_short_and_stay_so():
    memory, batches = Memory(2), Batches(8, "m")
    assert batches.run(range(9), lambda _: 0, memory) == [number**2 for number in range(9)]
    assert [len(batch) for batch in memory.batches] == [8, 4, 2, 2, 2, 2, 1]
    assert batches.size == 2
    with pytest.raises(UserError, match=r"m: .*a single page"):
        batches.run([1], lambda _: 0, Memory(0))


def test_groups_are_streamed_in_order_and_in_full_batches():
    memory = Memory(9)
    groups = [[3, 1, 5, 2], [], [7], [4, 6, 8]]
    assert list(memory.stream(Batches(2, "m"), groups)) == [[9, 1, 25, 4], [], [49], [16, 36, 64]]
    assert [batch for batch in memory.batches if batch] == [[5, 3], [2, 1], [7], [8, 6], [4]]


def test_parts_of_a_prepared_batch_that_memory_does_not_hold_are_prepared_anew():
    memory, batches = Memory(2), Batches(8, "m")
    groups = [list(range(8)), list(range(8, 20))]
    assert list(memory.stream(batches, groups)) == [[item**2 for item in group] for group in groups]
    assert batches.size == 2


def test_few_batches_are_prepared_ahead_in_other_threads_and_none_when_the_caller_stops():
    prepared, worked, here = [], [], threading.get_ident()

    def prepare(batch):
        assert threading.get_ident() != here
        prepared.append(batch)
        return batch

    def work(batch, ready):
        assert (ready, threading.get_ident()) == (batch, here)
        worked.append(batch)
        assert len(prepared) <= len(worked) + AHEAD
        return batch

    stream = Batches(1, "m").stream(([number] for number in range(50)), lambda _: 0, prepare, work)
    assert list(islice(stream, 5)) == [[number] for number in range(5)]
    stream.close()
    assert len(prepared) <= 5 + AHEAD


def test_an_error_of_a_preparation_is_raised_where_its_batch_is_due():
    def prepare(batch):
        if 3 in batch:
            raise UserError("page 3")
        return batch

    stream = Batches(1, "m").stream(
        [[1], [2], [3], [4]], lambda _: 0, prepare, lambda batch, _: batch
    )
    assert list(islice(stream, 2)) == [[1], [2]]
    with pytest.raises(UserError, match="page 3"):
        next(stream)
