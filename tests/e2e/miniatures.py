"""Downloads of all benchmarks, two questions each."""

from docagent_rl.samples.importers import Benchmark
from tests.samples.importers import test_corpora as corpora
from tests.samples.importers import test_pdf_sets as pdfs
from tests.samples.importers import test_picture_sets as pictures
from tests.samples.importers.conftest import Files


def miniature(benchmark: Benchmark, files: Files) -> None:
    """A download of two questions."""
    match benchmark:
        case Benchmark.MMLONGBENCH_DOC:
            files.pdf("data/documents/annual_report.v2.pdf", 4)
            nothing = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[2]"}
            files.json("data/samples.json", [pdfs.mm_row(), pdfs.mm_row(**nothing)])
        case Benchmark.LONGDOCURL:
            files.pdf("pdf_files/4026369.pdf", 6)
            files.jsonl(pdfs.URL_FILE, [pdfs.url_row(), pdfs.url_row(question_id="b", answer=3)])
        case Benchmark.SLIDEVQA:
            files.parquet("data/test-0.parquet", [pictures.deck_row(3), pictures.deck_row(3, qa_id=2)])
        case Benchmark.MP_DOCVQA:
            files.images("images/pybv0228_p{}.jpg", (80, 81, 82))
            pictures.write_mp(files, "val", [pictures.mp_row(), pictures.mp_row(questionId=2)])
        case Benchmark.DUDE:
            files.pdf("PDF/train/0017b64b.pdf", 3)
            pdfs.write_dude(files, [pdfs.dude_row(), pdfs.dude_row(questionId="n", **pdfs.NOTHING)])
        case Benchmark.VIDOSEEK:
            files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
            files.json("vidoseek.json", {"examples": [corpora.row(), corpora.row(uid="b")]})
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
            pictures.corpus(files, {"scan": pictures.ORDER["scan"]})
            nothing = {"answer": "The problem is not answerable", "answer_page_idx": []}
            files.parquet("dude/train.parquet", [pictures.alden_row(), pictures.alden_row(**nothing)])
