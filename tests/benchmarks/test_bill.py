from __future__ import annotations

import pytest

from benchmarks.bill import FEATURES, RENDER, STORE, Bill


def test_parts_add_up_and_grow() -> None:
    bill = Bill()
    bill.add(RENDER, 1.0, 100)
    bill.add(RENDER, 0.5)
    bill.add(STORE, 2.0, 300)
    bill.add(FEATURES, 4.0)
    assert bill.seconds() == 7.5
    assert bill.seconds(features=False) == 3.5
    assert bill.nbytes == 400
    grown = bill.times(64)
    assert grown.part(RENDER).seconds == 96
    assert grown.nbytes == 64 * 400
    assert bill.nbytes == 400


def test_work_is_timed_with_the_part_that_takes_its_bytes_and_a_failure_is_no_time() -> None:
    bill = Bill()
    with pytest.raises(KeyError), bill.timed(STORE):
        raise KeyError
    assert bill.seconds() == 0
    with bill.timed(STORE) as part:
        part.nbytes += 7
        sum(range(200_000))
    assert bill.part(STORE).seconds > 0
    assert bill.nbytes == 7
