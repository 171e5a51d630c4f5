from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write
from docagent_rl.sft.files import GROUP, SftFile, SftRow, file_pieces

PICTURE = ImageRef(PageRef("a.pdf", 2), "0" * 64, (0, 0, 100, 50), (56, 28))


def made(number: int) -> SftRow:
    ids = tuple(range(number + 1))
    return SftRow(f"q{number}", "vrag_rl", 0, 0.5, ids, (0, *[1] * number), (PICTURE,) * (number % 2))


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


def test_rows_are_taken_as_the_file_is_written():
    rows = iter(ROWS)
    next(file_pieces(rows, "abc"))
    assert next(rows) == ROWS[GROUP]


def test_the_same_rows_give_the_same_bytes(path):
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
