"""MMLongBench-Doc, and its second version with corrected annotations."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    ImportedQuestion,
    NativeRow,
    as_texts,
    given_answers,
    nested,
)
from docagent_rl.lab.importers.source import ImportSource
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "Not answerable"
_TYPES = "question_types.json"


class _MMLongBenchDoc(Importer):
    """MMLongBench-Doc: https://github.com/mayubo2333/MMLongBench-Doc, hub
    `yubo2333/MMLongBench-Doc`.

    All seven fields are text; lists are written in Python syntax. Golds are kept unchanged,
    including spaces.

    There are no ids: a question is named `<document>#<row>`. Three rows cite page 0 and one page
    1418; these citations are dropped.
    """

    name = "mmlongbench_doc"
    dataset = "mmlongbench"
    released = by_split("mmlongbench", test=1082)
    files = ("data/samples.json", "samples.json", "data/*.parquet", "*.parquet")
    split = Split.TEST
    document = "doc_id"
    gold = "answer"
    nothing = _UNANSWERABLE
    kept = ("doc_type",)
    pages = "evidence_pages"
    sources = "evidence_sources"
    pdf_files = ("data/documents/*", "documents/*", "*.pdf")

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        for number, row in enumerate(super().rows(source)):
            yield replace(row, number=number)

    def answer(self, draft: ImportedQuestion) -> None:
        draft.question_id = f"{draft.doc_id}#{draft.row.number:04d}"
        gold = draft.row.text("answer")
        draft.answer_format = draft.row.text("answer_format")
        if draft.answer_format == "List":
            with suppress(ValueError):
                draft.answers = given_answers(as_texts(gold))
        # two golds of the format List are plain numbers and one is empty: these stay whole
        draft.answers = draft.answers or (gold,)


class _MMLongBenchDocV2(_MMLongBenchDoc):
    """MMLongBench-Doc-V2 (arXiv 2608.03397): https://github.com/VectifyAI/MMLongBench-Doc-V2.

    The schema and the PDFs are those of the first version. A gold that begins with `Not answerable`
    marks an unanswerable question (`eval/metrics.py`): some continue with `or 0 or none`.

    `data/question_types.json` contains labels given by a model; they are added to `extra` if the
    file exists.
    """

    name = "mmlongbench_doc_v2"
    dataset = "mmlongbench_v2"
    released = by_split("mmlongbench_v2", test=1071)
    files = ("data/samples.json", "samples.json")
    kept = ("doc_type", "task_type", "requires_visual")

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        types = _question_types(source)
        for row in super().rows(source):
            found = types.get((nested(row.values, "doc_id"), nested(row.values, "question")))
            yield row if found is None else replace(row, values={**found, **row.values})

    def answer(self, draft: ImportedQuestion) -> None:
        super().answer(draft)
        if str(draft.gold).startswith(_UNANSWERABLE):
            draft.answers = ()
            draft.answerable = False


def _question_types(source: ImportSource) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Return the labels of questions by document and question; none if their file is missing."""
    path = next(
        (path for folder in ("data", ".") if (path := source.root / folder / _TYPES).is_file()),
        None,
    )
    if path is None:
        return {}
    try:
        return {
            (row["doc_id"], row["question"]): {
                name: row[name] for name in ("task_type", "requires_visual")
            }
            for row in source.rows(path)
        }
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: a row is not an object, or lacks doc_id, question, task_type or "
            "requires_visual; download the file again, or remove it: its labels are optional"
        ) from error


IMPORTERS = (_MMLongBenchDoc(), _MMLongBenchDocV2())
