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
from tests.examples.learning.small_task import SmallTask
from tests.sft.recorded import masked, write

LOADERS = Path(sys.prefix) / "loaders"
"""`make` puts it there: it pins other versions of what verl needs, so it is no part of the environment."""
IGNORED = -100


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


@pytest.fixture(scope="module")
def played(task):
    return task.play()


@pytest.fixture(scope="module")
def loaded(task, played, tmp_path_factory):
    """The examples as LLaMA-Factory's trainer gets them."""
    if not (LOADERS / "llamafactory").is_dir():
        pytest.skip("LLaMA-Factory is not there: `make loaders`")
    folder = tmp_path_factory.mktemp("exported")
    sessions = write([played.trajectory, masked(played.trajectory)], folder / "s.jsonl")
    command = ["export", str(sessions), "--format", "llamafactory", "--out", str(folder / "out")]
    assert CliRunner().invoke(app, [*command, "--store", str(task.paths.store)]).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LOADERS))
        patch.setenv("DISABLE_VERSION_CHECK", "1")
        return read(task, folder / "out", folder / "run")


def read(task, exported, run):
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    data = DataArguments(
        template="qwen2_vl",
        dataset=DATASET,
        dataset_dir=str(exported),
        media_dir=str(exported),
        cutoff_len=4096,
    )
    model = ModelArguments(model_name_or_path="none", cache_dir=str(run / "cache"))
    training = Seq2SeqTrainingArguments(output_dir=str(run), report_to="none", use_cpu=True)
    tokenizer = task.processor.tokenizer
    template = get_template_and_fix_tokenizer(tokenizer, data)
    found = get_dataset(template, model, data, training, "sft", tokenizer, task.processor)
    return found["train_dataset"]


def test_it_reads_the_tokens_of_rl_and_trains_on_what_the_policy_wrote(task, played, loaded):
    (example,) = loaded
    row = played.ledgers[0].row()
    ids = row.prompt_ids + row.response_ids
    assert example["input_ids"][: len(ids)] == ids
    # LLaMA-Factory trains on the line break behind a turn, which RL never does
    breaks = task.processor.tokenizer.encode("\n")
    trained = [label for label in example["labels"] if label != IGNORED]
    assert trained == [label for turn in played.trajectory.turns for label in [*turn.token_ids, *breaks]]


def test_its_images_are_files_as_large_as_they_were_shown(task, played, loaded):
    (example,) = loaded
    (path,) = example["images"]
    (shown,) = played.ledgers[0].row().images
    with Image.open(path) as found:
        assert found.tobytes() == render(shown.ref, DocumentStore(task.paths.store)).tobytes()
