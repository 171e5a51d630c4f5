"""Exported questions as EasyR1 reads them.

`datasets` reads the file as EasyR1 has it read; what its data set then does with a row (split at `<image>`,
open each image from its bytes, count one against the other, take the answer) is done here by its contract,
read from its source at 0.3.2 and at b44b311. With EASYR1=/path/to/a/checkout its own `RLHFDataset` runs.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from datasets import load_dataset
from PIL import Image
from typer.testing import CliRunner

from docagent_rl.commands.data import app
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.records.record import Record, read_jsonl, write_jsonl
from docagent_rl.rewards.easyr1 import exact
from docagent_rl.sft.easyr1 import PLACE, easyr1_bytes
from docagent_rl.synth import SynthSettings, synthesize
from docagent_rl.synth.settings import Difficulty

CHECKOUT = os.environ.get("EASYR1")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, list[Record]]:
    folder = tmp_path_factory.mktemp("easyr1")
    synthesize(folder / "synth", SynthSettings(documents=2, seed=3, difficulties=(Difficulty.EASY,)))
    assert not ingest(folder / "synth" / "pdfs", folder / "store", workers=1).failed
    return folder / "store", read_jsonl(folder / "synth" / "records.jsonl")


@pytest.fixture(scope="module")
def exported(corpus, tmp_path_factory) -> Path:
    store, records = corpus
    folder = tmp_path_factory.mktemp("exported")
    write_jsonl(records, folder / "records.jsonl")
    result = export(folder / "records.jsonl", "--store", store, "--out", folder / "train.parquet")
    assert result.exit_code == 0, result.output
    return folder / "train.parquet"


def export(*arguments: object):
    return CliRunner().invoke(app, ["export", "--format", "easyr1", *map(str, arguments)])


def rows_of(path: Path, cache: Path) -> list[dict]:
    """As EasyR1 opens a file: by its ending, one split."""
    kind = os.path.splitext(path)[-1][1:]  # noqa: PTH122  (its own words)
    return list(load_dataset(kind, data_files=str(path), split="train", cache_dir=str(cache)))


def test_a_row_has_a_place_for_each_of_its_images(exported, corpus, tmp_path):
    store, records = corpus
    by_id = {record.question_id: record for record in records}
    rows = rows_of(exported, tmp_path)
    assert len(rows) == sum(bool(record.gold_pages) for record in records) > 3
    for row in rows:
        record = by_id[row["question_id"]]
        assert row["problem"].split(PLACE)[-1] == record.question
        assert row["problem"].count(PLACE) == len(row["images"]) == len(record.gold_pages)
        for shown, page in zip(row["images"], sorted(record.gold_pages), strict=True):
            picture = Image.open(io.BytesIO(shown["bytes"]))
            picture.load()
            assert picture.mode == "RGB"
            assert picture.size == DocumentStore(store).document(page[0]).page(page[1]).size
        assert isinstance(row["answer"], str)
        assert row["answer"]


def test_references_are_what_our_rewards_read(exported, tmp_path):
    rows = rows_of(exported, tmp_path)
    inputs = [
        {
            "response": f"<answer>{row['answer']}</answer>",
            "response_length": 3,
            "ground_truth": row["reference"],
        }
        for row in rows
    ]
    assert {each["overall"] for each in exact(inputs)} == {1.0}
    assert json.loads(rows[0]["reference"])["question"] in rows[0]["problem"]


def test_questions_alone_have_no_column_of_images(corpus, tmp_path):
    _, records = corpus
    write_jsonl(records, tmp_path / "records.jsonl")
    out = tmp_path / "text.parquet"
    assert export(tmp_path / "records.jsonl", "--pages", "none", "--out", out).exit_code == 0
    rows = rows_of(out, tmp_path)
    assert len(rows) == len(records)
    assert "images" not in rows[0]
    assert rows[0]["problem"] == records[0].question


def test_questions_without_evidence_are_left_out_and_counted(corpus, tmp_path):
    store, records = corpus
    some = [record for record in records if record.gold_pages][:3]
    nothing = {"evidence_pages": (), "evidence_boxes": {}, "answerable": False, "answers": ()}
    none = replace(some[0], question_id="other", **nothing)
    write_jsonl([*some, none], tmp_path / "records.jsonl")
    result = export(tmp_path / "records.jsonl", "--store", store, "--out", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert "3 questions, 1 without 1 to 5 pages of evidence left out" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "x.json"), r"name a \.parquet file"),
        (("--out", "a@b.parquet"), "without @"),
        (("--out", "x.parquet"), "--store is needed"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(corpus, tmp_path, arguments, message):
    write_jsonl(corpus[1], tmp_path / "records.jsonl")
    result = export(tmp_path / "records.jsonl", *arguments)
    assert isinstance(result.exception, UserError)
    assert result.exit_code != 0
    with pytest.raises(UserError, match=message):
        raise result.exception


def test_another_file_is_not_replaced_unasked(exported, corpus):
    store, _ = corpus
    source = exported.with_name("records.jsonl")
    again = export(source, "--store", store, "--out", exported)
    assert "unchanged" in again.output
    other = export(source, "--store", store, "--pages", "none", "--out", exported)
    assert isinstance(other.exception, UserError)
    assert "--force" in str(other.exception)


def test_the_mark_of_an_image_in_a_question_is_refused(corpus):
    record = replace(corpus[1][0], question=f"What is {PLACE}?")
    with pytest.raises(UserError, match=record.question_id):
        easyr1_bytes([record], None, 5)


@pytest.mark.skipif(CHECKOUT is None, reason="EASYR1 names no checkout of EasyR1")
def test_easyr1_itself_reads_it(exported, tmp_path, monkeypatch):
    from docagent_rl.tiny.processor import build_processor
    from docagent_rl.tiny.tokenizer import build_tokenizer

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    processor = build_processor(build_tokenizer([]))
    module = their_module("utils.dataset", monkeypatch)
    data = module.RLHFDataset(
        str(exported),
        processor.tokenizer,
        processor,
        prompt_key="problem",
        answer_key="reference",
        max_prompt_length=4096,
        truncation="right",
        max_pixels=100_000,
        filter_overlong_prompts=False,
    )
    for row in (data[0], data[len(data) - 1]):
        assert row["input_ids"].shape == (4096,)
        assert row["multi_modal_data"]["images"]
        assert exact([{"response": "x", "response_length": 1, "ground_truth": row["ground_truth"]}])


def their_module(name: str, monkeypatch) -> ModuleType:
    """A module of EasyR1, under another name than that of its package, which is ours too."""
    root = Path(CHECKOUT or "") / "verl"
    for package in ("", ".utils", ".models", ".models.transformers"):
        made = ModuleType(f"easyr1{package}")
        made.__path__ = [str(root.joinpath(*package.strip(".").split(".")))] if package else [str(root)]
        monkeypatch.setitem(sys.modules, made.__name__, made)
    file = root.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"easyr1.{name}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
