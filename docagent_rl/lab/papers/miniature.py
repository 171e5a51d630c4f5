"""Make downloads of benchmarks at miniature size: synthetic reports in the official file formats.

`python -m docagent_rl.lab.papers.miniature BENCHMARK FOLDER` writes what `docagent-rl data import
BENCHMARK FOLDER` reads.
"""

import argparse
import csv
import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from docagent_rl.base.io import atomic_dir
from docagent_rl.lab.importers import Benchmark
from docagent_rl.lab.synth import DocumentDifficulty, SynthSettings, synthesize
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample, Split

_NOTHING = "Not answerable"
_DPI = 144
_SLIDES = 20
"""The number of columns of pictures in a row of SlideVQA."""


@dataclass(frozen=True)
class Reports:
    """Synthetic reports with their questions, and the folder to which a benchmark is written."""

    made: Path
    """The folder of the reports."""
    out: Path
    """The folder to which the benchmark is written."""
    name: str
    """The beginning of the documents' names, which must differ between benchmarks: the documents of
    all benchmarks go into one store.
    """

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """All questions."""
        found = read_questions(self.made / "samples.jsonl")
        return [replace(each, doc_id=f"{self.name}-{each.doc_id}") for each in found]

    @property
    def answerable(self) -> list[Sample]:
        """The questions that have an answer."""
        return [each for each in self.samples if each.answerable]

    @property
    def documents(self) -> dict[str, Path]:
        """The PDF of each document."""
        paths = sorted((self.made / "pdfs").glob("*.pdf"))
        return {f"{self.name}-{path.stem}": path for path in paths}

    def split_of(self, document: str) -> Split:
        """Return the split of a document's questions; `train` if it has none."""
        found = (each.split for each in self.samples if each.doc_id == document)
        return next(found, Split.TRAIN)

    def copy_pdfs(self, folder: str) -> None:
        """Copy all PDFs into a folder of the download."""
        place = self.out / folder
        place.mkdir(parents=True)
        for name, path in self.documents.items():
            shutil.copyfile(path, place / f"{name}.pdf")

    def pages(self, document: str) -> list[bytes]:
        """Return the pages of a document as JPEG files."""
        import pypdfium2

        found = []
        with pypdfium2.PdfDocument(self.documents[document]) as pdf:
            for page in pdf:
                buffer = io.BytesIO()
                page.render(scale=_DPI / 72).to_pil().convert("RGB").save(buffer, "JPEG")
                found.append(buffer.getvalue())
        return found

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the download."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def parquet(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as a Parquet file of the download."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows)), path)


def _mmlongbench_doc(reports: Reports) -> None:
    """Write MMLongBench-Doc, whose fields are all text."""
    reports.copy_pdfs("data/documents")
    rows = [
        {
            "doc_id": f"{each.doc_id}.pdf",
            "doc_type": "Financial report",
            "question": each.question,
            "answer": each.answers[0] if each.answerable else _NOTHING,
            "evidence_pages": str(list(each.evidence_pages)),
            "evidence_sources": str(list(each.evidence_sources)),
            "answer_format": "Str" if each.answerable else "None",
        }
        for each in reports.samples
    ]
    reports.write("data/samples.json", json.dumps(rows))


def _longdocurl(reports: Reports) -> None:
    """Write LongDocURL, with typed answers and the range of pages that a question is about."""
    reports.copy_pdfs("pdf_files")
    rows = [
        {
            "question_id": each.question_id,
            "doc_no": each.doc_id,
            "total_pages": each.extra["num_pages"],
            "start_end_idx": [1, each.extra["num_pages"]],
            "question_type": "extract",
            "question": each.question,
            "answer": each.answers[0] if each.answerable else _NOTHING,
            "detailed_evidences": "",
            "evidence_pages": list(each.evidence_pages),
            "evidence_sources": ["Text"],
            "answer_format": "String" if each.answerable else "None",
            "task_tag": "Understanding",
            "images": [],
            "pdf_path": f"/data/{each.doc_id}.pdf",
        }
        for each in reports.samples
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    reports.write("LongDocURL_public.jsonl", lines)


def _slidevqa(reports: Reports) -> None:
    """Write SlideVQA as on the hub, where the slides are in the rows of questions."""
    pictures = {name: reports.pages(name) for name in reports.documents}
    names = [f"page_{number}" for number in range(1, _SLIDES + 1)]
    for split in Split:
        rows = []
        for number, each in enumerate(reports.answerable):
            if each.split is not split:
                continue
            shown = [{"bytes": page, "path": None} for page in pictures[each.doc_id][:_SLIDES]]
            slides = dict(zip(names, shown, strict=False))
            rows.append(
                {
                    "deck_name": each.doc_id,
                    "deck_url": "",
                    "qa_id": number,
                    "question": each.question,
                    "answer": each.answers[0],
                    "arithmetic_expression": "None",
                    "evidence_pages": list(each.evidence_pages),
                    **dict.fromkeys(names),
                    **slides,
                }
            )
        name = "dev" if split is Split.VAL else split.value
        reports.parquet(f"data/{name}-00000-of-00001.parquet", rows)


def _mp_docvqa(reports: Reports) -> None:
    """Write MP-DocVQA, with one file for each split and named pages; answer pages count from 0."""
    for name in reports.documents:
        for number, page in enumerate(reports.pages(name)):
            reports.write(f"images/{name}_p{number}.jpg", page)
    for split in Split:
        rows = [
            {
                "questionId": number,
                "question": each.question,
                "doc_id": each.doc_id,
                "page_ids": [f"{each.doc_id}_p{page}" for page in range(each.extra["num_pages"])],
                "answers": list(each.answers),
                "answer_page_idx": each.evidence_pages[0] - 1,
                "data_split": split.value,
            }
            for number, each in enumerate(reports.answerable)
            if each.split is split
        ]
        content = {"dataset_name": "MP-DocVQA", "dataset_split": split.value, "data": rows}
        reports.write(f"{split.value}.json", json.dumps(content))


def _dude(reports: Reports) -> None:
    """Write DUDE, with one file for all splits; evidence is a box on a page, counted from 0."""
    for name, path in reports.documents.items():
        reports.write(f"PDF/{reports.split_of(name).value}/{name}.pdf", path.read_bytes())
    rows = [
        {
            "questionId": f"{each.doc_id}_{number}",
            "question": each.question,
            "answers": list(each.answers),
            "answers_page_bounding_boxes": [
                [{"left": 100, "top": 100, "width": 400, "height": 100, "page": page - 1}]
                for page in each.evidence_pages
            ],
            "answers_variants": [],
            "answer_type": "extractive" if each.answerable else "not-answerable",
            "docId": each.doc_id,
            "data_split": each.split.value,
        }
        for number, each in enumerate(reports.samples)
    ]
    content = {"dataset_name": "DUDE Dataset", "dataset_version": "1.0.7", "data": rows}
    reports.write("2023-03-23_DUDE_gt_test_PUBLIC.json", json.dumps(content))


def _vidoseek(reports: Reports) -> None:
    """Write ViDoSeek, whose questions are about all PDFs of the download."""
    reports.copy_pdfs("vidoseek_pdf_document")
    reports.write("vidoseek.json", json.dumps({"examples": _corpus_rows(reports)}))


def _vrag_rl(reports: Reports) -> None:
    """Write the training data that VRAG-RL's scripts make from SlideVQA."""
    reports.copy_pdfs("pdf")
    reports.write("rag_dataset.json", json.dumps({"examples": _corpus_rows(reports)}))


def _corpus_rows(reports: Reports) -> list[dict[str, Any]]:
    return [
        {
            "uid": each.question_id,
            "query": each.question,
            "reference_answer": each.answers[0],
            "meta_info": {
                "file_name": f"{each.doc_id}.pdf",
                "reference_page": list(each.evidence_pages),
                "source_type": "text",
                "query_type": "Single-Hop" if len(each.evidence_pages) == 1 else "Multi-Hop",
            },
        }
        for each in reports.answerable
    ]


def _uda(reports: Reports) -> None:
    """Write UDA's three parts, all about the same reports; none names evidence pages."""
    papers = ("paper_tab", "paper_text")
    reports.copy_pdfs("src_doc_files/paper_docs")
    for part in (*papers, "feta"):
        answers = ["answer_1", "answer_2", "answer_3"] if part in papers else ["answer"]
        more = [] if part in papers else ["doc_url"]
        text = io.StringIO()
        table = csv.writer(text, delimiter="|", lineterminator="\n")
        table.writerow(["doc_name", "q_uid", "question", *answers, *more])
        for number, each in enumerate(reports.answerable):
            given = [each.answers[0], *[" "] * (len(answers) - 1)]
            table.writerow([each.doc_id, f"{part}{number}", each.question, *given, *more])
        reports.write(f"dataset/qa/{part}_qa.csv", text.getvalue())


def _unidoc_rl(reports: Reports) -> None:
    """Write UniDoc-RL's training data, with named pages and boxes in thousandths by page name."""
    for name in reports.documents:
        for number, page in enumerate(reports.pages(name), start=1):
            reports.write(f"img/{name}_{number}.jpg", page)
    rows = []
    for each in reports.answerable:
        names = [f"{each.doc_id}_{page}" for page in each.evidence_pages]
        boxes = {
            f"{each.doc_id}_{page}": [[round(1000 * edge) for edge in box] for box in found]
            for page, found in each.evidence_boxes.items()
        }
        rows.append(
            {
                "prompt": [{"role": "user", "content": each.question}],
                "data_source": "slidevqa",
                "reward_model": {"style": "rule", "ground_truth": each.answers[0]},
                "reference_page": names,
                "extra_info": {"question": each.question, "answer": each.answers[0]},
                "bboxes": json.dumps(boxes),
                "crop_required": json.dumps(dict.fromkeys(boxes, True)),
            }
        )
    reports.parquet("train.parquet", rows)


def _alden(reports: Reports) -> None:
    """Write ALDEN's training data, with pages as rows of a corpus; page numbers are text from 0."""
    rows: list[dict[str, Any]] = []
    ranges = {}
    for name in reports.documents:
        first = len(rows)
        for number, page in enumerate(reports.pages(name)):
            rows.append({"id": str(number), "text": f"{name} {number}", "image": page})
        ranges[name] = [first, len(rows)]
    reports.parquet("dude/images.parquet", rows)
    reports.write("dude/id2idx.json", json.dumps(ranges))
    questions = [
        {
            "question": each.question,
            "answer": each.answers[0],
            "doc_id": each.doc_id,
            "doc_length": each.extra["num_pages"],
            "answer_page_idx": [str(page - 1) for page in each.evidence_pages],
        }
        for each in reports.answerable
    ]
    reports.parquet("dude/train.parquet", questions)


WRITERS: Mapping[Benchmark, Callable[[Reports], None]] = {
    Benchmark.MMLONGBENCH_DOC: _mmlongbench_doc,
    Benchmark.LONGDOCURL: _longdocurl,
    Benchmark.SLIDEVQA: _slidevqa,
    Benchmark.MP_DOCVQA: _mp_docvqa,
    Benchmark.DUDE: _dude,
    Benchmark.VIDOSEEK: _vidoseek,
    Benchmark.UDA: _uda,
    Benchmark.VRAG_RL: _vrag_rl,
    Benchmark.UNIDOC_RL: _unidoc_rl,
    Benchmark.ALDEN: _alden,
}
"""The functions that write the benchmarks which the papers use."""


def write_miniature(benchmark: Benchmark, out: Path) -> None:
    """Write a download of a benchmark with four short reports of its own, two of them for training.

    The folder appears only when it is complete; a benchmark always gets the same questions.
    """
    settings = SynthSettings(
        documents=4,
        seed=list(WRITERS).index(benchmark),
        questions_per_document=5,
        difficulties=(DocumentDifficulty.EASY,),
    )
    with atomic_dir(out) as folder:
        made = folder / ".made"
        synthesize(made, settings)
        WRITERS[benchmark](Reports(made, folder, benchmark.value))
        shutil.rmtree(made)


def make_named(arguments: Sequence[str] | None = None) -> None:
    """Make the download of the benchmark that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark", choices=[each.value for each in WRITERS])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    write_miniature(Benchmark(given.benchmark), given.folder)


if __name__ == "__main__":
    make_named()
