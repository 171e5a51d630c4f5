import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.opening import QueryEncoder


class Counting:
    """An encoder whose vector of a query is its length; it records the queries, and fails on
    request.

    A closed gate blocks the first batch that arrives.
    """

    content, dim, fingerprint = PageContent.TEXT, 2, "f"

    def __init__(self):
        self.batches, self.threads, self.gate = [], set(), threading.Event()
        self.gate.set()

    def encode_queries(self, queries):
        self.batches.append(list(queries))
        self.threads.add(threading.get_ident())
        assert self.gate.wait(120)
        if any(query.startswith("bad") for query in queries):
            raise ValueError("no such word")
        return [np.full((1, 2), len(query), np.float32) for query in queries]


@pytest.fixture
def model():
    return Counting()


def numbers(found):
    return [int(vectors[0, 0]) for vectors in found]


def ask_at_once(model, encoder, calls):
    """Return what many threads get that ask while the model is busy: numbers, or the exception."""

    def ask(queries):
        try:
            return numbers(encoder.encode_queries(queries))
        except Exception as error:  # whatever a caller gets is looked at
            return type(error)

    model.gate.clear()
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        busy = pool.submit(encoder.encode_queries, ["busy"])
        while not model.batches:
            time.sleep(0.001)
        answers = [pool.submit(ask, queries) for queries in calls]
        while len(encoder._waiting) < sum(map(len, calls)):
            time.sleep(0.001)
        model.gate.set()
        assert numbers(busy.result()) == [4]
        return [answer.result() for answer in answers]


def test_answers_are_those_of_the_model_in_order(model):
    encoder = QueryEncoder(model, batch_size=4)
    assert numbers(encoder.encode_queries(["aa", "b", "aa", "cccc", "ddddd", "eeeeee"])) == [
        2,
        1,
        2,
        4,
        5,
        6,
    ]
    assert max(map(len, model.batches)) <= 4
    assert (encoder.dim, encoder.content, encoder.fingerprint) == (2, PageContent.TEXT, "f")
    assert encoder.encode_queries([]) == []


def test_many_threads_get_their_own_answers_in_few_batches(model):
    encoder = QueryEncoder(model, batch_size=8)
    calls = [[f"query {'x' * (n % 20)}", "other"] for n in range(10)]
    assert ask_at_once(model, encoder, calls) == [[len(query) for query in call] for call in calls]
    assert [len(batch) for batch in model.batches] == [1, 8, 8, 4]
    assert len(model.threads) == 1


def test_an_exception_reaches_the_caller_of_its_query_and_no_other(model):
    encoder = QueryEncoder(model, batch_size=8)
    assert ask_at_once(model, encoder, [["bad one"], ["good"], ["fine"]]) == [ValueError, [4], [4]]
    model.encode_queries = lambda queries: []  # one that loses a query is wrong
    with pytest.raises(ValueError):
        encoder.encode_queries(["two"])
