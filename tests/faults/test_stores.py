import pytest

from tests.faults.stores import CAMPAIGN


@pytest.mark.faults
def test_stores_are_read_right_or_refused(faults):
    row = faults(CAMPAIGN)
    assert min(row.refused, row.right) > 0
