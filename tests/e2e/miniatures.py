"""Downloads of all benchmarks, with one to three questions each."""

import io
from collections.abc import Callable, Mapping

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.lab.importers import Benchmark
from tests.lab.importers import test_alden as alden
from tests.lab.importers import test_corpora as corpora
from tests.lab.importers import test_madqa as madqa
from tests.lab.importers import test_mmlongbench as mmlongbench
from tests.lab.importers import test_pdf_sets as pdfs
from tests.lab.importers import test_picture_sets as pictures
from tests.lab.importers import test_unidoc_sources as unidoc_sources
from tests.lab.importers import test_vidore as vidore
from tests.lab.importers.conftest import Files


def readable(text: str) -> bytes:
    """Draw a page with large letters."""
    image = Image.new("RGB", (700, 200), "white")
    ImageDraw.Draw(image).text((40, 60), text, fill="black", font=ImageFont.load_default(64))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def write_mmlongbench_doc(files: Files) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    nothing = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[2]"}
    files.json("data/samples.json", [mmlongbench.mm_row(), mmlongbench.mm_row(**nothing)])


def write_mmlongbench_doc_v2(files: Files) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    nothing = {"answer": "Not answerable or 0 or none", "answer_format": "None"}
    files.json("data/samples.json", [mmlongbench.mm_row(), mmlongbench.mm_row(**nothing)])


def write_longdocurl(files: Files) -> None:
    files.pdf("pdf_files/4026369.pdf", 6)
    files.jsonl(pdfs.URL_FILE, [pdfs.url_row(), pdfs.url_row(question_id="b", answer=3)])


def write_slidevqa(files: Files) -> None:
    files.parquet("data/test-0.parquet", [pictures.deck_row(3), pictures.deck_row(3, qa_id=2)])


def write_mp_docvqa(files: Files) -> None:
    files.images("images/pybv0228_p{}.jpg", (80, 81, 82))
    pictures.write_mp(files, "val", [pictures.mp_row(), pictures.mp_row(questionId=2)])


def write_dude(files: Files) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    pdfs.write_dude(files, [pdfs.dude_row(), pdfs.dude_row(questionId="n", **pdfs.NOTHING)])


def write_vidoseek(files: Files) -> None:
    files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
    files.json("vidoseek.json", {"examples": [corpora.row(), corpora.row(uid="b")]})


def write_madqa(files: Files) -> None:
    files.pdf("pdfs/a.pdf", 1)
    files.pdf("pdfs/b.pdf", 2)
    files.parquet("data/test-0.parquet", [madqa.row(), madqa.row(id="q2")])


def write_vidore_v3(files: Files) -> None:
    judged = [vidore.judged(0, 5, 2, [vidore.BOX]), vidore.judged(1, 4, 1)]
    # their headline is what a search finds: OCR has to read the pages
    pages = [
        vidore.page(5, "eu", 0, image={"bytes": readable("working hours"), "path": "5.png"}),
        vidore.page(4, "wages", 0, image={"bytes": readable("minimum wages"), "path": "4.png"}),
    ]
    vidore.write(files, [vidore.query(0), vidore.query(1)], judged, pages)


def write_uda(files: Files) -> None:
    files.pdf("src_doc_files/wiki_feta_docs/pdfs/a.pdf", 1)
    files.text("dataset/qa/feta_qa.csv", pdfs.FETA + "a|1|Who?|me|u\na|2|Why?|so|u\n")


def write_vrag_rl(files: Files) -> None:
    files.pdf("pdf/a_b_02.pdf", 11)
    files.json("rag_dataset.json", {"examples": [corpora.row(uid=1), corpora.row(uid=2)]})


def write_unidoc_rl(files: Files) -> None:
    files.parquet("train.parquet", [corpora.unidoc(), corpora.unidoc()])
    files.images("img/deck_a_{}.jpg", (1, 2, 3))
    files.images("img/deck_b_{}.jpg", (1,))


def write_alden(files: Files) -> None:
    alden.corpus(files, {"scan": alden.ORDER["scan"]})
    nothing = {"answer": "The problem is not answerable", "answer_page_idx": []}
    files.parquet("dude/train.parquet", [alden.alden_row(), alden.alden_row(**nothing)])


def write_double_bench(files: Files) -> None:
    files.json("single_bench.json", [unidoc_sources.single()])
    files.json("multi_bench.json", [unidoc_sources.single(reference_page=[1])])
    files.images("docs/English/0786/{}.jpg", (0, 1, 2))


def write_visr_bench(files: Files) -> None:
    files.json("QA/figure_QA.json", [unidoc_sources.visr()])
    files.images("VisR-Bench/Multimodal/DR--1/DR--1_{}.png", (0, 10))


def write_docbench(files: Files) -> None:
    row = unidoc_sources.docbench_row()
    nothing = {"answer": "Not said", "type": "una-web"}
    files.jsonl("data/17/17_qa.jsonl", [row, {**row, **nothing}])
    files.pdf("data/17/2024.acl-long.1.pdf", 2)


MINIATURES: Mapping[Benchmark, Callable[[Files], None]] = {
    Benchmark.MMLONGBENCH_DOC: write_mmlongbench_doc,
    Benchmark.MMLONGBENCH_DOC_V2: write_mmlongbench_doc_v2,
    Benchmark.LONGDOCURL: write_longdocurl,
    Benchmark.SLIDEVQA: write_slidevqa,
    Benchmark.MP_DOCVQA: write_mp_docvqa,
    Benchmark.DUDE: write_dude,
    Benchmark.VIDOSEEK: write_vidoseek,
    Benchmark.MADQA: write_madqa,
    Benchmark.VIDORE_V3: write_vidore_v3,
    Benchmark.UDA: write_uda,
    Benchmark.VRAG_RL: write_vrag_rl,
    Benchmark.UNIDOC_RL: write_unidoc_rl,
    Benchmark.ALDEN: write_alden,
    Benchmark.DOUBLE_BENCH: write_double_bench,
    Benchmark.VISR_BENCH: write_visr_bench,
    Benchmark.DOCBENCH: write_docbench,
}
"""Writers of a download of two questions."""
