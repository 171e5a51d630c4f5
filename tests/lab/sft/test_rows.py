"""Rows of trajectories, and the file of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.sft.rows import (
    GROUP,
    SftFile,
    SftRow,
    file_pieces,
    sft_rows,
    tokenizer_digest,
    write_sft,
)
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.ledger import TurnLedger


@pytest.fixture(scope="module")
def row(played):
    (row,) = sft_rows(played.trajectory, played.ledgers)
    return row


def test_the_mask_is_one_exactly_on_what_was_sampled(task, played, row):
    ids, mask = np.array(row.input_ids), np.array(row.loss_mask)
    sampled = [token for turn in played.trajectory.turns for token in turn.token_ids]
    assert ids[mask == 1].tolist() == sampled
    assert (row.reward, row.question_id) == (1.0, played.trajectory.sample["question_id"])
    # the first sampled token follows the prompt, the last one ends the row
    start = played.ledgers[0].prompt_length
    assert (mask[:start].sum(), mask[start], mask[-1]) == (0, 1, 1)
    (image,) = row.images
    placeholders = ids == task.resources.codec.image_token_id
    assert placeholders.sum() == image.size[0] * image.size[1] // 28**2
    assert not (placeholders & (mask == 1)).any()
    # the trainer rolls the mask by one over rows that lie end to end: the first token of a row must
    # be 0
    rolled = torch.roll(torch.tensor([*row.loss_mask, *row.loss_mask]), -1)
    assert (rolled.sum(), rolled[-1]) == (2 * len(sampled), 0)


def test_a_context_in_which_nothing_was_sampled_gives_no_row(task, played):
    unused = TurnLedger([1, 2], max_response=8, image_token_id=task.resources.codec.image_token_id)
    assert len(sft_rows(played.trajectory, [*played.ledgers, unused])) == 1


def test_rows_survive_the_file_and_another_vocabulary_is_refused(task, row, tmp_path):
    path = write_sft([row, row], tmp_path / "rows.parquet", task.processor.tokenizer)
    assert (
        list(SftFile(path, tokenizer_digest(task.processor.tokenizer)))
        == list(SftFile(path))
        == [row, row]
    )
    other = build_tokenizer(["plates plates plates zyxwv zyxwv zyxwv zyxwv"] * 50)
    assert tokenizer_digest(other) != tokenizer_digest(task.processor.tokenizer)
    with pytest.raises(UserError, match=r"rows\.parquet"):
        SftFile(path, tokenizer_digest(other))


def test_what_is_no_file_of_rows_is_named(task, tmp_path):
    (tmp_path / "text.parquet").write_text("no parquet")
    pq.write_table(pa.table({"input_ids": [[1]]}), tmp_path / "other.parquet")
    for name in ("gone", "text", "other"):
        with pytest.raises(UserError, match=rf"{name}\.parquet"):
            SftFile(tmp_path / f"{name}.parquet")
    with pytest.raises(UserError, match=r"none\.parquet"):
        write_sft([], tmp_path / "none.parquet", task.processor.tokenizer)
    assert not (tmp_path / "none.parquet").exists()


PICTURE = ImageRef(PageRef("a.pdf", 2), "0" * 64, (0, 0, 100, 50), (56, 28))


def made(number: int) -> SftRow:
    ids = tuple(range(number + 1))
    return SftRow(
        f"q{number}", "vrag_rl", 0, 0.5, ids, (0, *[1] * number), (PICTURE,) * (number % 2)
    )


ROWS = [made(number) for number in range(3 * GROUP + 1)]


@pytest.fixture
def path(tmp_path):
    return atomic_write(tmp_path / "rows.parquet", file_pieces(ROWS, "abc"))


def test_any_row_is_found_by_its_number_and_lengths_and_pictures_without_the_rows(path):
    file = SftFile(path, "abc")
    assert len(file) == len(ROWS)
    for number in (3 * GROUP, 0, GROUP, GROUP - 1, 5):
        assert file.row(number) == ROWS[number]
    assert list(file) == ROWS
    assert file.lengths().tolist() == [len(row.input_ids) for row in ROWS]
    assert list(file.pictures()) == [PICTURE] * (3 * GROUP // 2)


def test_rows_are_taken_as_the_file_is_written_and_give_the_same_bytes(path):
    rows = iter(ROWS)
    next(file_pieces(rows, "abc"))
    assert next(rows) == ROWS[GROUP]
    assert b"".join(file_pieces(ROWS, "abc")) == path.read_bytes()
    assert pq.read_metadata(path).num_row_groups == 4


def test_a_damaged_group_is_named_when_it_is_read(path):
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(1).column(4)
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)
    file = SftFile(path)
    assert file.row(0) == ROWS[0]
    with pytest.raises(UserError, match=r"rows\.parquet"):
        file.row(GROUP)
