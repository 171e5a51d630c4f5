from __future__ import annotations

import pytest

from docagent_rl.endpoints.price import Price
from docagent_rl.eval.metrics import sessions


def test_tokens_of_both_kinds_have_their_price():
    assert Price(2.0, 8.0).of_tokens(1_000_000, 250_000) == pytest.approx(4.0)


def test_evaluation_counts_by_the_same_price():
    assert sessions.Price is Price
