from __future__ import annotations

from benchmarks.bill import FEATURES, RENDER, STORE, Bill


def test_parts_add_up_and_grow():
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
