import pytest

from tests.faults.data_files import CAMPAIGN


@pytest.mark.faults
def test_files_of_questions_are_read_right_or_refused(faults):
    row = faults(CAMPAIGN)
    assert min(row.refused, row.right) > 0
