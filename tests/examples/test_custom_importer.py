import json

import pytest

from docagent_rl.commands.data import app
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Split
from tests.commands.conftest import called
from tests.lab.importers.conftest import Files

NAME = "custom_importer:LabelTool"


def line(number, **changes):
    task = {"id": number, "file": "leases/a.pdf"}
    return {"task": task, "ask": f"What of {number}?", "reply": "41", "pages": "2, 4-5", **changes}


@pytest.fixture
def export(tmp_path) -> Files:
    files = Files(tmp_path / "export")
    files.pdf("files/leases/a.pdf", 6)
    return files


def imported(export, out, *more, status=0):
    asked = ("import", NAME, export.root, "--out", out, "--workers", 1, *more)
    return " ".join(called(app, *asked, status=status).output.split())


def test_an_export_becomes_questions(export, tmp_path):
    export.jsonl(
        "train.jsonl", [line(1, annotator="ab"), line(2, reply="not in the document", pages="")]
    )
    export.jsonl("val.jsonl", [line(3)])
    out = tmp_path / "out.jsonl"
    told = imported(export, out, "--store", tmp_path / "store", "--dpi", 36)
    assert "label_tool: 3 samples of 3 rows" in told
    first, nothing, val = read_questions(out)
    assert (first.question_id, first.dataset, first.split) == ("1", "label_tool", Split.TRAIN)
    assert (first.doc_id, first.evidence_pages, first.answers) == ("a", (2, 4, 5), ("41",))
    assert (first.extra["annotator"], first.extra["num_pages"]) == ("ab", 6)
    assert (nothing.answerable, nothing.answers, val.split) == (False, (), Split.VAL)


def test_pages_that_cannot_be_read_are_counted(export, tmp_path):
    export.jsonl("train.jsonl", [line(1, pages="two"), line(2)])
    out = tmp_path / "out.jsonl"
    assert "note: field 'pages' could not be read │ 1 │ train.jsonl:0" in imported(export, out)
    assert [sample.evidence_pages for sample in read_questions(out)] == [(), (2, 4, 5)]
    report = json.loads(out.with_name("out.report.json").read_text())
    assert report["importer"] == "label_tool"
