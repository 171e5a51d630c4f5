"""Questions are accepted as people write them; all that is wrong with them is reported at once,
before a run.
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.lab.importers import Benchmark
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import write_jsonl
from tests.checkpoints.saved import flip
from tests.commands.conftest import called


def data(*arguments, **expected):
    return called(app, *arguments, **expected).output.replace("\n", "")


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(question="What?", **more):
    return {"doc_id": "K.pdf", "question": question, "answers": "41", "evidence_pages": [1], **more}


def test_four_fields_of_a_question_are_enough(store, tmp_path):
    questions, out = lines(tmp_path / "q.jsonl", asked()), tmp_path / "train.parquet"
    data("convert", questions, "--store", store.path, "--out", out)
    (sample,) = read_parquet(out)
    assert (sample.doc_id, sample.answers, sample.evidence_pages) == ("K", ("41",), (1,))
    assert "1 rows are valid" in data("validate", out, "--store", store.path)


def test_all_problems_are_told_at_once_with_their_lines_and_nothing_is_written(store, tmp_path):
    rows = (
        asked(answers=[]),
        asked(doc_id="nobody.pdf"),
        asked(evidence_pages=[99]),
        asked(question=3),
    )
    questions = lines(tmp_path / "q.jsonl", *rows)
    told = data(
        "convert", questions, "--store", store.path, "--out", tmp_path / "x.parquet", status=2
    )
    for number in range(1, 5):
        assert f"q.jsonl:{number}" in told
    assert not (tmp_path / "x.parquet").exists()


def test_the_template_is_valid(tmp_path):
    data("template", "--out", tmp_path / "q.jsonl")
    assert "rows are valid" in data("validate", tmp_path / "q.jsonl")


def test_a_part_that_is_set_aside_shares_no_document(tmp_path):
    rows = [asked(f"What is {n}?", doc_id=f"d{n % 4}") for n in range(40)]
    questions = lines(tmp_path / "q.jsonl", *rows)
    data("convert", questions, "--out", tmp_path, "--split", 0.25, "--by", "document")
    train, val = (read_parquet(tmp_path / f"{name}.parquet") for name in ("train", "val"))
    assert len(train) + len(val) == 40
    assert val
    assert not {each.doc_id for each in train} & {each.doc_id for each in val}


def test_half_a_character_in_a_question_is_named(make_sample, tmp_path):
    row = json.loads(make_sample().to_json()) | {"question": "half \ud83d of it"}
    told = data("validate", lines(tmp_path / "q.jsonl", row), status=2)
    assert "q.jsonl:1: a text contains half a character" in told


def test_a_flipped_bit_in_a_data_file_is_no_other_sample(make_sample, tmp_path):
    source = write_jsonl([make_sample(extra={})], tmp_path / "q.jsonl")
    out = tmp_path / "train.parquet"
    data("convert", source, "--out", out)
    whole = out.read_bytes()
    place = (
        whole.index(b"What is the answer?") if b"What is the answer?" in whole else len(whole) // 3
    )
    flip(out, place)
    with pytest.raises(UserError, match=r"train\.parquet"):
        read_parquet(out)


def test_a_column_that_is_missing_is_one_clear_problem(make_sample, tmp_path):
    out = tmp_path / "train.parquet"
    data("convert", write_jsonl([make_sample(extra={})], tmp_path / "q.jsonl"), "--out", out)
    pq.write_table(pq.read_table(out).drop_columns(["sample"]), out)
    assert "'sample'" in data("validate", out, status=2)
    pq.write_table(pa.table({"x": [1]}), out)
    assert "train.parquet" in data("validate", out, status=2)


@pytest.mark.parametrize("name", [each.value for each in Benchmark])
def test_a_download_of_something_else_is_one_clear_error(tmp_path, name):
    """The download has an error page in the place of the files."""
    folder = tmp_path / "fetched"
    folder.mkdir()
    (folder / "page.html").write_text("<html>404</html>")
    with pytest.raises(UserError, match=f"{folder}: .*no questions"):
        data("import", name, folder, "--out", tmp_path / "out.jsonl")


def test_files_of_questions_that_an_import_leaves_unread_are_named(tmp_path):
    folder = tmp_path / "fetched"
    folder.mkdir()
    row = {"doc_id": "a.pdf", "question": "What?", "answer": "41", "answer_format": "Int"}
    for name in ("samples.json", "samples_test.json"):
        (folder / name).write_text(json.dumps([row]))
    told = data("import", "mmlongbench_doc", folder, "--any-count", "--out", tmp_path / "out.jsonl")
    assert "not read" in told
    assert "samples_test.json" in told


@pytest.mark.parametrize(
    "name", ["no_such_module:Mine", f"{__name__}:json", f"{__name__}:Benchmark"]
)
def test_what_is_no_importer_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(UserError, match=f"importer '{name}'"):
        data("import", name, tmp_path, "--out", tmp_path / "out.jsonl")
