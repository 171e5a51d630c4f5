import pytest

from tests.faults.replies import CAMPAIGN


@pytest.mark.faults
def test_replies_are_read_right_or_mask_their_session(faults):
    row = faults(CAMPAIGN)
    assert row.refused > 0.3 * row.tried
    assert row.right > 0.1 * row.tried
