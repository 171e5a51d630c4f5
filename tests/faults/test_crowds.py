import pytest

from tests.faults.crowds import CAMPAIGN


@pytest.mark.faults
def test_sessions_in_company_are_those_they_are_alone(faults):
    row = faults(CAMPAIGN)
    assert row.right == row.tried
