"""Exported questions as EasyR1 reads them.

`datasets` reads the file as EasyR1 has it read; what its data set then does with a row (split at `<image>`,
open each image from its bytes, count one against the other, take the answer) is done here by its contract,
read from its source at 0.3.2 and at b44b311.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import load_dataset
from PIL import Image
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.documents import DocumentStore
from docagent_rl.lab.sft.easyr1 import PLACE, easyr1_bytes
from docagent_rl.rewards.easyr1 import exact
from docagent_rl.samples.sample import Sample, read_jsonl, write_jsonl


@pytest.fixture(scope="module")
def corpus(world) -> tuple[Path, list[Sample]]:
    return world.root / "store", read_jsonl(world.root / "synthetic" / "samples.jsonl")


@pytest.fixture(scope="module")
def exported(corpus, tmp_path_factory) -> Path:
    store, samples = corpus
    folder = tmp_path_factory.mktemp("exported")
    write_jsonl(samples, folder / "samples.jsonl")
    result = export(folder / "samples.jsonl", "--store", store, "--out", folder / "train.parquet")
    assert result.exit_code == 0, result.output
    return folder / "train.parquet"


def export(*arguments: object):
    return CliRunner().invoke(app, ["export", "--format", "easyr1", *map(str, arguments)])


def rows_of(path: Path, cache: Path) -> list[dict]:
    """As EasyR1 opens a file: one split."""
    return list(load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(cache)))


def test_a_row_has_a_place_for_each_of_its_images_and_an_answer_that_rewards_read(exported, corpus, tmp_path):
    store, samples = corpus
    by_id = {sample.question_id: sample for sample in samples}
    rows = rows_of(exported, tmp_path)
    assert len(rows) == sum(bool(sample.gold_pages) for sample in samples) > 3
    for row in rows:
        sample = by_id[row["question_id"]]
        assert row["problem"].split(PLACE)[-1] == sample.question == json.loads(row["reference"])["question"]
        assert row["problem"].count(PLACE) == len(row["images"]) == len(sample.gold_pages)
        for shown, page in zip(row["images"], sorted(sample.gold_pages), strict=True):
            picture = Image.open(io.BytesIO(shown["bytes"]))
            picture.load()
            assert picture.mode == "RGB"
            assert picture.size == DocumentStore(store).document(page[0]).page(page[1]).size
        said = {"response": f"<answer>{row['answer']}</answer>", "response_length": 3}
        assert exact([said | {"ground_truth": row["reference"]}])[0]["overall"] == 1.0


def test_questions_alone_have_no_column_of_images(exported, corpus, tmp_path):
    out = tmp_path / "text.parquet"
    assert export(exported.with_name("samples.jsonl"), "--pages", "none", "--out", out).exit_code == 0
    rows = rows_of(out, tmp_path)
    assert [row["problem"] for row in rows] == [sample.question for sample in corpus[1]]
    assert "images" not in rows[0]


def test_questions_without_evidence_are_left_out_and_counted(corpus, tmp_path):
    store, samples = corpus
    some = [sample for sample in samples if sample.gold_pages][:3]
    nothing = {"evidence_pages": (), "evidence_boxes": {}, "answerable": False, "answers": ()}
    none = replace(some[0], question_id="other", **nothing)
    write_jsonl([*some, none], tmp_path / "samples.jsonl")
    result = export(tmp_path / "samples.jsonl", "--store", store, "--out", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert {"3", "1"} <= set(result.output.split())
    assert len(rows_of(tmp_path / "out.parquet", tmp_path)) == 3


@pytest.mark.parametrize(
    ("out", "named"),
    [("x.json", "--out x.json"), ("a@b.parquet", "--out a@b.parquet"), ("x.parquet", "--store")],
)
def test_mistakes_are_named_before_anything_is_written(exported, out, named):
    result = export(exported.with_name("samples.jsonl"), "--out", out)
    assert isinstance(result.exception, UserError)
    assert named in str(result.exception)


def test_the_mark_of_an_image_in_a_question_is_refused(corpus):
    sample = replace(corpus[1][0], question=f"What is {PLACE}?")
    with pytest.raises(UserError, match=sample.question_id):
        easyr1_bytes([sample], None, 5)
