"""Questions as VRAG-RL's code reads them: JSON with `examples`, or the Parquet file of its converter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument
from docagent_rl.records.importers.native import Draft, NativeRow, Skip
from docagent_rl.records.importers.source import Source, split_in, split_named
from docagent_rl.records.importers.vidoseek import corpus_documents, corpus_draft
from docagent_rl.records.record import Split

DATASET = "vrag"


class VragRL(Importer):
    """Neither RL nor SFT data are released; these are made by the release's own scripts.

    Dialogues for SFT are no questions: they are counted and left out.
    """

    name = "vrag_rl"
    corpus = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        for path in source.require(
            "questions",
            "*.parquet",
            "data/*.parquet",
            "rag_dataset.json",
            "*/rag_dataset.json",
            "*.json",
            "data/*.json",
        ):
            split = split_in(path, source.root, Split.TRAIN)
            for number, values in enumerate(source.rows(path, under="examples")):
                info = values.get("extra_info") if isinstance(values, Mapping) else None
                named = info.get("split") if isinstance(info, Mapping) else None
                own = split_named(named) if isinstance(named, str) else None
                yield NativeRow(path, number, values, DATASET, own or split)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        if row.get("messages") is not None:
            raise Skip("a dialogue for SFT, no question")
        info = row.get("extra_info")
        split = row.split or Split.TRAIN
        draft = corpus_draft(row if info is None else _converted(row, info), split)
        draft.row = row
        if row.get("data_source"):
            draft.keep("data_source")
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        return corpus_documents(source)


def _converted(row: NativeRow, info: object) -> NativeRow:
    """A row of the converter in the form of the JSON that it was made from."""
    if not isinstance(info, Mapping):
        raise Skip("field 'extra_info' is no object")
    model = row.get("reward_model")
    answer = info.get("answer")
    if answer is None and isinstance(model, Mapping):
        answer = model.get("ground_truth")
    meta = {
        "file_name": info.get("file_name"),
        "reference_page": info.get("reference_page"),
        "source_type": info.get("content_type"),
        "query_type": info.get("reason_type"),
    }
    values = {
        "uid": row.get("id"),
        "query": info.get("question"),
        "reference_answer": answer,
        "meta_info": meta,
    }
    return NativeRow(row.path, row.number, values, row.dataset, row.split)


IMPORTER = VragRL()
