import pytest

from tests.faults.vector_indexes import CAMPAIGN


@pytest.mark.faults
def test_vector_indexes_are_read_right_or_refused(faults):
    row = faults(CAMPAIGN)
    assert min(row.refused, row.right) > 0
