"""Questions as VRAG-RL's code reads them: JSON with `examples`, or the Parquet file of its converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docagent_rl.samples.importers.native import Draft, NativeRow, Skip
from docagent_rl.samples.importers.source import Source, nested, split_named
from docagent_rl.samples.importers.vidoseek import CorpusImporter
from docagent_rl.samples.sample import Split

_CONVERTED = {
    "file_name": "file_name",
    "reference_page": "reference_page",
    "source_type": "content_type",
    "query_type": "reason_type",
    "query": "question",
    "reference_answer": "answer",
}
"""Fields of the JSON, by their names in the `extra_info` of the converter's rows."""


class _VragRL(CorpusImporter):
    """Neither RL nor SFT data are released; these are made by the release's own scripts.

    Dialogues for SFT are no questions: they are counted and left out.
    """

    name = "vrag_rl"
    dataset = "vrag"
    files = (
        "*.parquet",
        "data/*.parquet",
        "rag_dataset.json",
        "*/rag_dataset.json",
        "*.json",
        "data/*.json",
    )
    unnamed_split = Split.TRAIN

    def split_of(self, values: Any, source: Source, path: Path) -> Split | None:
        return split_named(nested(values, "extra_info", "split")) or super().split_of(values, source, path)

    def flat(self, row: NativeRow) -> NativeRow:
        if row.get("messages") is not None:
            raise Skip("a dialogue for SFT, no question")
        if row.get("extra_info") is None:
            return super().flat(row)
        found = row.inner("extra_info")
        found.values = {name: found.get(native) for name, native in _CONVERTED.items()}
        if found.values["reference_answer"] is None:
            found.values["reference_answer"] = nested(row.values, "reward_model", "ground_truth")
        found.values |= {"uid": row.get("id"), "data_source": row.get("data_source")}
        return found

    def complete(self, draft: Draft) -> None:
        super().complete(draft)
        if draft.row.get("data_source"):
            draft.keep("data_source")


IMPORTER = _VragRL()
