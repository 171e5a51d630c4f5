"""LLaMA-Factory's own loader, from its registry of data sets to token ids and labels, against RL's mask."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from docagent_rl.commands.data import app
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.delivery import render
from docagent_rl.sft.exports import DATASET
from tests.sft.recorded import masked, write

LOADERS = Path(sys.prefix) / "loaders"
"""`make` puts it there: it pins other versions of what verl needs, so it is no part of the environment."""


def read(task, exported, run):
    """The examples as LLaMA-Factory's trainer gets them."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    places = {"dataset": DATASET, "dataset_dir": str(exported), "media_dir": str(exported)}
    data = DataArguments(template="qwen2_vl", cutoff_len=4096, **places)
    model = ModelArguments(model_name_or_path="none", cache_dir=str(run / "cache"))
    training = Seq2SeqTrainingArguments(output_dir=str(run), report_to="none", use_cpu=True)
    tokenizer = task.processor.tokenizer
    template = get_template_and_fix_tokenizer(tokenizer, data)
    return get_dataset(template, model, data, training, "sft", tokenizer, task.processor)["train_dataset"]


@pytest.mark.slow
@pytest.mark.skipif(not (LOADERS / "llamafactory").is_dir(), reason="no LLaMA-Factory: `make loaders`")
def test_it_reads_the_tokens_of_rl_and_trains_on_what_the_policy_wrote(task, played, tmp_path, monkeypatch):
    sessions = write([played.trajectory, masked(played.trajectory)], tmp_path / "s.jsonl")
    command = ["export", str(sessions), "--format", "llamafactory", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, [*command, "--store", str(task.paths.store)]).exit_code == 0
    monkeypatch.syspath_prepend(str(LOADERS))
    monkeypatch.setenv("DISABLE_VERSION_CHECK", "1")
    (example,) = read(task, tmp_path / "out", tmp_path / "run")
    row = played.ledgers[0].row()
    ids = row.prompt_ids + row.response_ids
    assert example["input_ids"][: len(ids)] == ids
    # LLaMA-Factory trains on the line break behind a turn, which RL never does
    breaks = task.processor.tokenizer.encode("\n")
    trained = [label for label in example["labels"] if label != -100]
    assert trained == [label for turn in played.trajectory.turns for label in [*turn.token_ids, *breaks]]
    # images are files as large as they were shown
    (path,) = example["images"]
    with Image.open(path) as found:
        assert found.tobytes() == render(row.images[0].ref, DocumentStore(task.paths.store)).tobytes()
