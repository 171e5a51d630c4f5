import pytest

from tests.faults.kills import CAMPAIGN

pytestmark = pytest.mark.slow


@pytest.mark.faults
def test_a_command_that_was_killed_anywhere_and_runs_again_makes_the_same(faults):
    row = faults(CAMPAIGN)
    assert row.right > 0.5 * row.tried
    assert row.refused > 0
