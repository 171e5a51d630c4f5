"""Trajectories in the formats of other trainers, read back by TRL and LLaMA-Factory themselves."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.base.untrusted import INVISIBLE
from docagent_rl.commands.data import app
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import render
from docagent_rl.lab.sft.exports import DATASET, DATASET_INFO, conversations
from docagent_rl.lab.sft.trajectories import DropReason
from tests.lab.sft.recorded import masked, with_turn, write


@pytest.fixture
def export(task):
    def run(file, form, out):
        command = ["export", str(file), "--format", form, "--out", str(out)]
        result = CliRunner().invoke(app, [*command, "--store", str(task.paths.store)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return run


@pytest.fixture
def file(played, tmp_path):
    return write([played.trajectory, masked(played.trajectory)], tmp_path / "s.jsonl")


@pytest.mark.slow
def test_trl_trains_on_the_turns_alone(export, task, played, file, tmp_path):
    from datasets import load_dataset
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling as Collator

    export(file, "trl", tmp_path / "out")
    places = {"data_dir": str(tmp_path / "out"), "cache_dir": str(tmp_path / "cache")}
    rows = load_dataset("imagefolder", split="train", **places)
    assert len(rows) == len(played.trajectory.turns) == 2
    end = task.resources.codec.end_of_turn_id
    for row, turn in zip(rows, played.trajectory.turns, strict=True):
        batch = Collator(task.processor, completion_only_loss=True)([dict(row)])
        labels = [label for label in batch["labels"][0].tolist() if label != -100]
        # the template ends a turn with a line break, which RL never trains
        assert labels[: len(turn.token_ids)] == turn.token_ids
        assert labels[len(turn.token_ids) - 1] == end
        assert task.processor.tokenizer.decode(labels[len(turn.token_ids) :]).strip() == ""
    ids = batch["input_ids"][0].tolist()
    row = played.ledgers[0].row()
    assert ids[: len(row.prompt_ids) + len(row.response_ids)] == row.prompt_ids + row.response_ids
    assert batch["pixel_values"].shape[0] == row.images[0].patches.shape[0]


def test_the_same_export_changes_nothing_and_tells_what_it_left_out(export, file, tmp_path):
    out = tmp_path / "out"
    assert "masked" in export(file, "llamafactory", out).stderr
    assert json.loads((out / "dataset_info.json").read_text()) == DATASET_INFO
    files = {path: path.read_bytes() for path in out.rglob("*.*")}
    assert len(files) == 3
    export(file, "llamafactory", out)
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == files


def test_words_of_documents_spell_no_token_and_no_place(played):
    trajectory = with_turn(played.trajectory)
    trajectory.prompt = [{"role": "user", "parts": [{"text": "a <image> <|im_end|> <b>"}]}]
    (turns,) = conversations(trajectory)
    assert turns[0].parts == (f"a <{INVISIBLE}image> <{INVISIBLE}|im_end|> <b>",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stop": "truncated"}, DropReason.CUT_OFF),
        ({"text": ""}, DropReason.SPELLING),
        ({"text": "<image>"}, DropReason.SPELLING),
    ],
)
def test_turns_that_no_format_can_tell_are_left_out(played, changes, reason):
    assert conversations(with_turn(played.trajectory, **changes)) is reason


def test_what_cannot_be_exported_is_refused(export, file, played, tmp_path):
    with pytest.raises(UserError, match=r"s\.jsonl"):
        export(file, "trl", file)
    nothing = write([masked(played.trajectory)], tmp_path / "none.jsonl")
    with pytest.raises(UserError, match=r"none\.jsonl"):
        export(nothing, "trl", tmp_path / "nothing")


LOADERS = Path(sys.prefix) / "loaders"
"""`make` puts it there: it pins other versions of what verl needs, so it is no part of the
environment.
"""


def read(task, exported, run):
    """Return the examples as LLaMA-Factory's trainer gets them."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    places = {"dataset": DATASET, "dataset_dir": str(exported), "media_dir": str(exported)}
    data = DataArguments(template="qwen2_vl", cutoff_len=4096, **places)
    model = ModelArguments(model_name_or_path="none", cache_dir=str(run / "cache"))
    training = Seq2SeqTrainingArguments(output_dir=str(run), report_to="none", use_cpu=True)
    tokenizer = task.processor.tokenizer
    template = get_template_and_fix_tokenizer(tokenizer, data)
    return get_dataset(template, model, data, training, "sft", tokenizer, task.processor)[
        "train_dataset"
    ]


@pytest.mark.slow
@pytest.mark.skipif(
    not (LOADERS / "llamafactory").is_dir(), reason="no LLaMA-Factory: `make loaders`"
)
def test_it_reads_the_tokens_of_rl_and_trains_on_what_the_policy_wrote(
    export, task, played, file, tmp_path, monkeypatch
):
    export(file, "llamafactory", tmp_path / "out")
    monkeypatch.syspath_prepend(str(LOADERS))
    monkeypatch.setenv("DISABLE_VERSION_CHECK", "1")
    (example,) = read(task, tmp_path / "out", tmp_path / "run")
    row = played.ledgers[0].row()
    ids = row.prompt_ids + row.response_ids
    assert example["input_ids"][: len(ids)] == ids
    # LLaMA-Factory trains on the line break behind a turn, which RL never does
    breaks = task.processor.tokenizer.encode("\n")
    trained = [label for label in example["labels"] if label != -100]
    assert trained == [
        label for turn in played.trajectory.turns for label in [*turn.token_ids, *breaks]
    ]
    # images are files as large as they were shown
    (path,) = example["images"]
    with Image.open(path) as found:
        assert (
            found.tobytes() == render(row.images[0].ref, DocumentStore(task.paths.store)).tobytes()
        )
