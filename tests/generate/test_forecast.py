from __future__ import annotations

import pytest

from docagent_rl.endpoints.price import Price
from docagent_rl.generate.forecast import Forecast


@pytest.fixture
def expected() -> Forecast:
    found = Forecast()
    found.step("write questions").add(1_000_000, 100_000, requests=2)
    found.step("compare answers").add(500_000, 0, requests=4)
    return found


@pytest.mark.parametrize(
    ("price", "judge", "costs"),
    [
        (Price(1, 10), Price(3, 0), ["4.0000 USD", "6.0000 USD", "10.0000 USD"]),
        (Price(1, 10, currency="EUR"), None, ["4.0000 EUR", "-", "4.0000 EUR"]),
        (None, Price(3, 0), ["-", "6.0000 USD", "6.0000 USD"]),
        (None, None, ["-", "-", "-"]),
    ],
)
def test_each_step_costs_what_its_model_costs(expected, price, judge, costs):
    assert list(expected.table(price, judge).columns[-1].cells) == costs
