import pytest

from tests.faults.pdfs import CAMPAIGN


@pytest.mark.faults
def test_pdfs_are_stored_right_or_refused(faults):
    row = faults(CAMPAIGN)
    assert min(row.refused, row.right) > 0.1 * row.tried
