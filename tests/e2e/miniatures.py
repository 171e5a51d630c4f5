"""Downloads of all benchmarks, with two questions each."""

import io
from typing import assert_never

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


def miniature(benchmark: Benchmark, files: Files) -> None:
    """Write a download of two questions."""
    match benchmark:
        case Benchmark.MMLONGBENCH_DOC:
            files.pdf("data/documents/annual_report.v2.pdf", 4)
            nothing = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[2]"}
            files.json("data/samples.json", [mmlongbench.mm_row(), mmlongbench.mm_row(**nothing)])
        case Benchmark.MMLONGBENCH_DOC_V2:
            files.pdf("data/documents/annual_report.v2.pdf", 4)
            nothing = {"answer": "Not answerable or 0 or none", "answer_format": "None"}
            files.json("data/samples.json", [mmlongbench.mm_row(), mmlongbench.mm_row(**nothing)])
        case Benchmark.LONGDOCURL:
            files.pdf("pdf_files/4026369.pdf", 6)
            files.jsonl(pdfs.URL_FILE, [pdfs.url_row(), pdfs.url_row(question_id="b", answer=3)])
        case Benchmark.SLIDEVQA:
            files.parquet(
                "data/test-0.parquet", [pictures.deck_row(3), pictures.deck_row(3, qa_id=2)]
            )
        case Benchmark.MP_DOCVQA:
            files.images("images/pybv0228_p{}.jpg", (80, 81, 82))
            pictures.write_mp(files, "val", [pictures.mp_row(), pictures.mp_row(questionId=2)])
        case Benchmark.DUDE:
            files.pdf("PDF/train/0017b64b.pdf", 3)
            pdfs.write_dude(files, [pdfs.dude_row(), pdfs.dude_row(questionId="n", **pdfs.NOTHING)])
        case Benchmark.VIDOSEEK:
            files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
            files.json("vidoseek.json", {"examples": [corpora.row(), corpora.row(uid="b")]})
        case Benchmark.MADQA:
            files.pdf("pdfs/a.pdf", 1)
            files.pdf("pdfs/b.pdf", 2)
            files.parquet("data/test-0.parquet", [madqa.row(), madqa.row(id="q2")])
        case Benchmark.VIDORE_V3:
            judged = [vidore.judged(0, 5, 2, [vidore.BOX]), vidore.judged(1, 4, 1)]
            # their headline is what a search finds: OCR has to read the pages
            pages = [
                vidore.page(
                    5, "eu", 0, image={"bytes": readable("working hours"), "path": "5.png"}
                ),
                vidore.page(
                    4, "wages", 0, image={"bytes": readable("minimum wages"), "path": "4.png"}
                ),
            ]
            vidore.write(files, [vidore.query(0), vidore.query(1)], judged, pages)
        case Benchmark.UDA:
            files.pdf("src_doc_files/wiki_feta_docs/pdfs/a.pdf", 1)
            files.text("dataset/qa/feta_qa.csv", pdfs.FETA + "a|1|Who?|me|u\na|2|Why?|so|u\n")
        case Benchmark.VRAG_RL:
            files.pdf("pdf/a_b_02.pdf", 11)
            files.json("rag_dataset.json", {"examples": [corpora.row(uid=1), corpora.row(uid=2)]})
        case Benchmark.UNIDOC_RL:
            files.parquet("train.parquet", [corpora.unidoc(), corpora.unidoc()])
            files.images("img/deck_a_{}.jpg", (1, 2, 3))
            files.images("img/deck_b_{}.jpg", (1,))
        case Benchmark.ALDEN:
            alden.corpus(files, {"scan": alden.ORDER["scan"]})
            nothing = {"answer": "The problem is not answerable", "answer_page_idx": []}
            files.parquet("dude/train.parquet", [alden.alden_row(), alden.alden_row(**nothing)])
        case Benchmark.DOUBLE_BENCH:
            files.json("single_bench.json", [unidoc_sources.single()])
            files.json("multi_bench.json", [unidoc_sources.single(reference_page=[1])])
            files.images("docs/English/0786/{}.jpg", (0, 1, 2))
        case Benchmark.VISR_BENCH:
            files.json("QA/figure_QA.json", [unidoc_sources.visr()])
            files.images("VisR-Bench/Multimodal/DR--1/DR--1_{}.png", (0, 10))
        case Benchmark.DOCBENCH:
            row = unidoc_sources.docbench_row()
            nothing = {"answer": "Not said", "type": "una-web"}
            files.jsonl("data/17/17_qa.jsonl", [row, {**row, **nothing}])
            files.pdf("data/17/2024.acl-long.1.pdf", 2)
        case _:
            assert_never(benchmark)
