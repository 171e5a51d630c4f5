from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cpu_only")]


def test_upstream_still_ends_at_a_seeded_prompt_in_pieces(tied_report):
    assert "CPU Generator does not use offset" in tied_report["seeds"]["original_error"]


def test_pieces_of_the_prompt_do_not_change_what_a_seed_samples(tied_report):
    report = tied_report["seeds"]
    assert report["pieces"] == report["whole"]
    assert len({tuple(tokens) for tokens in report["whole"]}) == 3
