from __future__ import annotations

import numpy as np

from benchmarks import queries


def test_queries_are_distinct_and_each_is_asked_once():
    class Counting:
        def encode_queries(self, texts):
            seen.extend(texts)
            return [np.zeros((1, 2), np.float32)]

    seen: list[str] = []
    asked = queries.questions(40)
    assert len(set(asked)) == 40
    assert queries.ask(Counting(), asked, 8) == 40
    assert sorted(seen) == sorted(asked)
