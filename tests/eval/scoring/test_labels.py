from __future__ import annotations

import pytest

from docagent_rl.eval.report.targets import paper_rows
from docagent_rl.eval.scoring.labels import flat, labels_of
from tests.eval.scoring.sessions import question


@pytest.mark.parametrize(
    ("native", "line"),
    [
        ("Multi-Hop", "Multi-Hop"), ("multi_hop", "Multi-Hop"), ("MultiHop", "Multi-Hop"),
        ("content_extraction", "content_extraction"), ("Multi-Hop_Single-Span", "Multi-Hop_Single-Span"),
    ],
)  # fmt: skip
def test_hops_have_one_spelling(native, line):
    record = question(dataset="vidoseek", extra={"query_type": native, "source_type": "text"})
    assert labels_of(record)["query_type"] == [line]
    assert record.extra["query_type"] == native


def test_papers_lines_are_found_as_vidoseeks_file_spells_them():
    records = [question(extra={"query_type": f"{number}_hop"}) for number in ("single", "multi")]
    lines = {line for record in records for line in flat(labels_of(record))}
    printed = {target.row for row in paper_rows() for target in row.numbers if target.dataset == "vidoseek"}
    assert printed
    assert printed <= lines
