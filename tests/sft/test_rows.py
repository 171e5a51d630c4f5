from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from docagent_rl.errors import UserError
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.sft.rows import read_sft, sft_rows, tokenizer_digest, write_sft
from docagent_rl.tiny.tokenizer import build_tokenizer
from tests.examples.learning.small_task import SmallTask


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


@pytest.fixture(scope="module")
def session(task):
    return task.play()


@pytest.fixture(scope="module")
def row(session):
    (row,) = sft_rows(session.trajectory, session.ledgers)
    return row


def test_ids_are_those_of_the_training_row(session, row):
    ledger = session.ledgers[0].row()
    assert list(row.input_ids) == ledger.prompt_ids + ledger.response_ids
    assert row.reward == pytest.approx(1.0)
    assert row.question_id == session.trajectory.record["question_id"]


def test_the_mask_is_one_exactly_on_what_was_sampled(session, row):
    ids, mask = np.array(row.input_ids), np.array(row.loss_mask)
    sampled = [token for turn in session.trajectory.turns for token in turn.token_ids]
    assert mask.sum() == len(sampled)
    assert ids[mask == 1].tolist() == sampled
    # the first sampled token follows the prompt, the last one ends the row
    assert mask[: session.ledgers[0].prompt_length].sum() == 0
    assert mask[session.ledgers[0].prompt_length] == 1
    assert mask[-1] == 1


def test_each_image_stands_where_its_placeholders_are(task, row):
    (image,) = row.images
    placeholders = np.array(row.input_ids) == task.resources.codec.image_token_id
    assert placeholders.sum() == image.size[0] * image.size[1] // 28**2
    assert not (placeholders & (np.array(row.loss_mask) == 1)).any()


def test_a_context_in_which_nothing_was_sampled_gives_no_row(task, session):
    unused = TurnLedger([1, 2], max_response=8, image_token_id=task.resources.codec.image_token_id)
    assert len(sft_rows(session.trajectory, [*session.ledgers, unused])) == 1


def test_rows_survive_the_file(task, row, tmp_path):
    path = write_sft([row, row], tmp_path / "rows.parquet", task.processor.tokenizer)
    assert list(read_sft(path, task.processor.tokenizer)) == [row, row]


def test_another_vocabulary_is_refused(task, row, tmp_path):
    path = write_sft([row], tmp_path / "rows.parquet", task.processor.tokenizer)
    other = build_tokenizer(["plates plates plates zyxwv zyxwv zyxwv zyxwv"] * 50)
    assert tokenizer_digest(other) != tokenizer_digest(task.processor.tokenizer)
    with pytest.raises(UserError, match=r"rows\.parquet"):
        read_sft(path, other)
    assert list(read_sft(path)) == [row]


def test_what_is_no_file_of_rows_is_named(task, tmp_path):
    with pytest.raises(UserError, match=r"gone\.parquet"):
        read_sft(tmp_path / "gone.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(UserError, match=r"text\.parquet"):
        read_sft(tmp_path / "text.parquet")
    pq.write_table(pa.table({"input_ids": [[1]]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"other\.parquet"):
        read_sft(tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"none\.parquet"):
        write_sft([], tmp_path / "none.parquet", task.processor.tokenizer)
    assert not (tmp_path / "none.parquet").exists()


def test_the_loss_of_a_row_sees_nothing_but_the_scripts_tokens(row):
    """The trainer rolls the mask by one over rows that lie end to end: the first token of a row must be 0."""
    assert row.loss_mask[0] == 0
    rolled = torch.roll(torch.tensor([*row.loss_mask, *row.loss_mask]), -1)
    assert rolled.sum() == 2 * sum(row.loss_mask)
    assert rolled[-1] == 0
