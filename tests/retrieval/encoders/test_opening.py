from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.local import Lane, find_device
from docagent_rl.retrieval.encoders.opening import QueryEncoder


class Counting:
    """The vector of a query is its length; keeps what it was asked, and fails when told to.

    A closed gate holds the first batch that comes to it.
    """

    content, dim, fingerprint = PageContent.TEXT, 2, "f"

    def __init__(self):
        self.batches, self.threads, self.gate = [], set(), threading.Event()
        self.gate.set()

    def encode_queries(self, queries):
        self.batches.append(list(queries))
        self.threads.add(threading.get_ident())
        assert self.gate.wait(120)
        if "down" in queries:
            raise InfrastructureError("the server is down")
        if any(query.startswith("bad") for query in queries):
            raise ValueError("no such word")
        return [np.full((1, 2), len(query), np.float32) for query in queries]


@pytest.fixture
def model():
    return Counting()


class Asked(QueryEncoder):
    asked = 0

    def _future(self, query):
        found = super()._future(query)
        self.asked += 1
        return found


def encoder_of(model, **changes):
    return Asked(model, QueryEncoderConfig(**{"batch_size": 4, "wait_ms": 0.0, **changes}))


def numbers(found):
    return [int(vectors[0, 0]) for vectors in found]


def ask_at_once(model, encoder, calls):
    """What many threads get when they ask while the model is busy: numbers, or the exception."""
    asked = sum(map(len, calls))

    def ask(queries):
        try:
            return numbers(encoder.encode_queries(queries))
        except Exception as error:  # whatever a caller gets is looked at
            return type(error)

    model.gate.clear()
    before = encoder.asked
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        busy = pool.submit(encoder.encode_queries, ["busy"])
        while not model.batches or "busy" not in model.batches[-1]:
            time.sleep(0.001)
        answers = [pool.submit(ask, queries) for queries in calls]
        while encoder.asked < before + asked + 1:
            time.sleep(0.001)
        model.gate.set()
        assert numbers(busy.result()) == [4]
        return [answer.result() for answer in answers]


def test_answers_are_those_of_the_model_in_order(model):
    encoder = encoder_of(model)
    found = encoder.encode_queries(["aa", "b", "aa", "cccc", "ddddd", "eeeeee"])
    assert numbers(found) == [2, 1, 2, 4, 5, 6]
    assert max(map(len, model.batches)) <= 4
    assert sorted(query for batch in model.batches for query in batch) == [
        "aa",
        "b",
        "cccc",
        "ddddd",
        "eeeeee",
    ]
    assert (encoder.dim, encoder.content, encoder.fingerprint) == (2, PageContent.TEXT, "f")
    assert encoder.encode_queries([]) == []
    with pytest.raises(ValueError):  # shared vectors cannot be changed
        found[0][0, 0] = 9


def test_known_queries_are_not_encoded_and_the_oldest_is_forgotten(model):
    encoder = encoder_of(model, cached=2)
    for query in ("a", "b", "a", "c", "a", "b"):
        encoder.encode_queries([query])
    # a was used again, so b had to go for c
    assert model.batches == [["a"], ["b"], ["c"], ["b"]]
    without = encoder_of(model, cached=0)
    for _ in range(2):
        without.encode_queries(["z"])
    assert model.batches[4:] == [["z"], ["z"]]


@pytest.mark.parametrize("cached", [0, 100])
def test_many_threads_get_their_own_answers_in_few_batches(model, cached):
    encoder = encoder_of(model, batch_size=8, cached=cached)
    calls = [[f"query {'x' * (n % 20)}", "shared"] for n in range(64)]
    assert ask_at_once(model, encoder, calls) == [[len(query) for query in call] for call in calls]
    assert encoder.asked == 129
    # one that was busy, and 21 different queries, eight at a time
    assert [len(batch) for batch in model.batches] == [1, 8, 8, 5]
    assert len(model.threads) == 1


def test_the_first_query_waits_for_others_and_a_full_batch_for_none(model):
    """Ten minutes, which nobody waits here."""
    encoder = encoder_of(model, batch_size=3, wait_ms=600_000.0)
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda query: numbers(encoder.encode_queries([query])), ["a", "bb", "ccc"]))
    assert answers == [[1], [2], [3]]
    assert len(model.batches) == 1


def test_an_exception_reaches_every_caller_of_its_query_and_no_other(model):
    encoder = encoder_of(model, batch_size=8)
    answers = ask_at_once(model, encoder, [["bad one"], ["bad one"], ["good"], ["fine"]])
    assert answers == [ValueError, ValueError, [4], [4]]
    with pytest.raises(ValueError):
        encoder.encode_queries(["bad one"])
    assert numbers(encoder.encode_queries(["good"])) == [4]


def test_a_dead_service_is_asked_once_for_a_batch(model):
    encoder = encoder_of(model, batch_size=8)
    assert ask_at_once(model, encoder, [["down"], ["one"], ["two"]]) == [InfrastructureError] * 3
    assert [len(batch) for batch in model.batches] == [1, 3]
    # it comes back: nothing of the failure is kept
    assert numbers(encoder.encode_queries(["one"])) == [3]
    # one that loses a query is wrong
    model.encode_queries = lambda queries: []
    with pytest.raises(ValueError):
        encoder.encode_queries(["two"])


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_work_has_few_threads_and_the_process_keeps_its_own():
    one, two = Lane(), Lane(threads=2)
    assert one(torch.get_num_threads) == 1
    assert two(torch.get_num_threads) == 2
    assert torch.get_num_threads() == 3
    assert one(torch.is_inference_mode_enabled)
    assert not torch.is_inference_mode_enabled()


def test_work_is_done_one_by_one_in_one_thread_and_failures_come_back():
    lane, inside, meet = Lane(), [], threading.Barrier(2, timeout=120)

    def work():
        inside.append(threading.get_ident())
        return len(inside)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: lane(work), range(20))) == list(range(1, 21))
        assert len(set(inside)) == 1
        # two at once give the process its threads back
        assert len({*pool.map(lambda each: each(meet.wait), (lane, Lane()))}) == 2
    with pytest.raises(ZeroDivisionError):
        lane(lambda: 1 / 0)
    assert torch.get_num_threads() == 3


def test_a_device_that_is_not_there_is_named():
    for name in ("gpu", "meta", "cuda:31"):
        with pytest.raises(UserError, match=rf"docagent\.retriever\.encoder\.device={name}"):
            find_device(name)
