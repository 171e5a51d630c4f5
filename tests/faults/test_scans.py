import pytest

from tests.faults.scans import CAMPAIGN


@pytest.mark.faults
def test_scans_are_read_right_or_refused(faults):
    row = faults(CAMPAIGN)
    assert row.right > 0.4 * row.tried
    assert row.refused
