import pytest

from tests.faults.campaign import find

LEAST = {
    "crowds": (0, 1),
    "kills": (0.05, 0.4),
    "pdfs": (0.2, 0.2),
    "replies": (0.3, 0.1),
}
"""Shares of the cases that are refused, and that are right: a campaign that does nothing is noticed."""


@pytest.mark.faults
@pytest.mark.parametrize("name", LEAST)
def test_damage_is_refused_with_a_clear_error_or_does_no_harm(name, faults):
    refused, right = faults(find(name))
    assert refused >= LEAST[name][0]
    assert right >= LEAST[name][1]
