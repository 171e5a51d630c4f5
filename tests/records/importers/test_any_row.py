"""Whatever JSON stands in the fields of a row, it gives a record or a counted reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.records.importers import Benchmark, get_importer
from docagent_rl.records.importers.finishing import finished
from docagent_rl.records.importers.holdings import Holdings
from docagent_rl.records.importers.native import NativeRow, Skip
from docagent_rl.records.importers.report import Tally
from docagent_rl.records.record import Record, Split
from docagent_rl.records.validation import record_problems
from tests.records.importers import (
    test_alden,
    test_corpora,
    test_dude,
    test_longdocurl,
    test_mmlongbench_doc,
    test_mp_docvqa,
    test_slidevqa,
)

ROWS: Mapping[Benchmark, Mapping[str, Any]] = {
    Benchmark.MMLONGBENCH_DOC: test_mmlongbench_doc.row(),
    Benchmark.LONGDOCURL: test_longdocurl.row(),
    Benchmark.SLIDEVQA: test_slidevqa.row(),
    Benchmark.MP_DOCVQA: test_mp_docvqa.row(),
    Benchmark.DUDE: test_dude.row(),
    Benchmark.VIDOSEEK: test_corpora.row(),
    Benchmark.UDA: {"doc_name": "a", "q_uid": "1", "question": "Who?", "answer": "me", "doc_url": "u"},
    Benchmark.VRAG_RL: test_corpora.row(),
    Benchmark.UNIDOC_RL: test_corpora.unidoc(),
    Benchmark.ALDEN: test_alden.row(),
}
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["[1, 'a']", "[0]", "{'a_1': [[1, 2, 3, 4]]}", "../x", "Not answerable", "[]", "nan", "a_1", "7"]
    ),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def changed(row: Mapping[str, Any], data: st.DataObject) -> dict[str, Any]:
    """The row with some of its fields, or of the objects in them, replaced."""
    found = dict(row)
    for name in data.draw(st.lists(st.sampled_from(sorted(row)), min_size=1, max_size=3, unique=True)):
        inner = found[name]
        if isinstance(inner, Mapping) and data.draw(st.booleans()):
            found[name] = changed(inner, data)
        else:
            found[name] = data.draw(VALUES)
    return found


@pytest.mark.parametrize("benchmark", Benchmark)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_row_gives_a_record_or_a_reason(benchmark: Benchmark, data: st.DataObject) -> None:
    importer = get_importer(benchmark)
    dataset = "uda_feta" if benchmark is Benchmark.UDA else "any"
    row = NativeRow(Path("file.json"), 0, changed(ROWS[benchmark], data), dataset, Split.TRAIN, "file")
    try:
        draft = importer.draft(row)
        importer.settle([draft])
        record = finished(draft, importer.base, Holdings(lengths={draft.doc_id: 5}), Tally())
    except Skip:
        return
    assert Record.from_json(record.to_json()) == record
    problems = [problem for problem in record_problems(record) if "no reference answer" not in problem]
    assert problems == []
