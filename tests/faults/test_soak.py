import pytest

from tests.faults.soak import CAMPAIGN


@pytest.mark.faults
def test_nothing_grows_with_the_number_of_sessions(faults):
    row = faults(CAMPAIGN)
    assert row.right == row.tried
