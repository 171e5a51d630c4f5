import pytest

from tests.faults.configurations import CAMPAIGN


@pytest.mark.faults
def test_configurations_are_refused_or_sound(faults):
    row = faults(CAMPAIGN)
    assert min(row.refused, row.right) > 0
