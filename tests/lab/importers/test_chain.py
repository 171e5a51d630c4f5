"""For all benchmarks, any row gives a sample or a reason."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.finishing import finish_sample
from docagent_rl.lab.importers.holdings import Holdings
from docagent_rl.lab.importers.native import NativeRow, Skip
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.validation import sample_problems
from tests.lab.importers import test_alden as alden
from tests.lab.importers import test_corpora as corpora
from tests.lab.importers import test_madqa as madqa
from tests.lab.importers import test_mmlongbench as mmlongbench
from tests.lab.importers import test_pdf_sets as pdfs
from tests.lab.importers import test_picture_sets as pictures
from tests.lab.importers import test_unidoc_sources as unidoc_sources
from tests.lab.importers import test_vidore as vidore

ROWS: Mapping[Benchmark, Mapping[str, Any]] = {
    Benchmark.MMLONGBENCH_DOC: mmlongbench.mm_row(),
    Benchmark.MMLONGBENCH_DOC_V2: mmlongbench.mm_row(),
    Benchmark.LONGDOCURL: pdfs.url_row(),
    Benchmark.SLIDEVQA: pictures.slide_row(),
    Benchmark.MP_DOCVQA: pictures.mp_row(),
    Benchmark.DUDE: pdfs.dude_row(),
    Benchmark.VIDOSEEK: corpora.row(),
    Benchmark.MADQA: madqa.row(),
    Benchmark.VIDORE_V3: vidore.read_query(),
    Benchmark.UDA: {
        "doc_name": "a",
        "q_uid": "1",
        "question": "Who?",
        "answer": "me",
        "doc_url": "u",
    },
    Benchmark.VRAG_RL: corpora.row(),
    Benchmark.UNIDOC_RL: corpora.unidoc(),
    Benchmark.ALDEN: alden.alden_row(),
    Benchmark.DOUBLE_BENCH: unidoc_sources.single(),
    Benchmark.VISR_BENCH: unidoc_sources.visr_question(),
    Benchmark.DOCBENCH: unidoc_sources.docbench_row(),
}
ODD = [
    "[1, 'a']",
    "[0]",
    "{'a_1': [[1, 2, 3, 4]]}",
    "../x",
    "Not answerable",
    "[]",
    "nan",
    "a_1",
    "7",
]
TEXTS = st.text(max_size=20) | st.sampled_from(ODD)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def changed(row: Mapping[str, Any], data: st.DataObject) -> dict[str, Any]:
    """Return the row with some of its fields, or of the objects in them, replaced."""
    found = dict(row)
    for name in data.draw(
        st.lists(st.sampled_from(sorted(row)), min_size=1, max_size=3, unique=True)
    ):
        inner = found[name]
        if isinstance(inner, Mapping) and data.draw(st.booleans()):
            found[name] = changed(inner, data)
        else:
            found[name] = data.draw(VALUES)
    return found


@pytest.mark.parametrize("benchmark", Benchmark)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_row_gives_a_sample_or_a_reason(benchmark, data):
    importer = get_importer(benchmark)
    dataset = "uda_feta" if benchmark is Benchmark.UDA else "any"
    row = NativeRow(
        Path("file.json"), 0, changed(ROWS[benchmark], data), dataset, Split.TRAIN, "file"
    )
    try:
        draft = importer.draft(row)
        importer.revise([draft])
        sample = finish_sample(draft, importer.first_page, Holdings(lengths={draft.doc_id: 5}))
    except Skip:
        return
    assert Sample.from_json(sample.to_json()) == sample
    problems = [
        problem for problem in sample_problems(sample) if "no reference answer" not in problem
    ]
    assert problems == []
