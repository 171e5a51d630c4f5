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


@pytest.fixture
def path(tmp_path):
    return atomic_write(tmp_path / "rows.parquet", file_pieces(map(made, range(3 * GROUP + 1)), "abc"))


def test_any_row_is_found_by_its_number(path):
    file = SftFile(path, "abc")
    assert len(file) == 3 * GROUP + 1
    for number in (3 * GROUP, 0, GROUP, GROUP - 1, 5):
        assert file.row(number) == made(number)
    assert list(file) == [made(number) for number in range(3 * GROUP + 1)]


def test_lengths_and_pictures_are_told_without_the_rows(path):
    file = SftFile(path)
    assert file.lengths().tolist() == list(range(1, 3 * GROUP + 2))
    assert list(file.pictures()) == [PICTURE] * (3 * GROUP // 2)


def test_rows_are_taken_as_the_file_is_written():
    taken = []

    def rows():
        for number in range(10 * GROUP):
            taken.append(number)
            yield made(number)

    pieces = file_pieces(rows(), "abc")
    next(pieces)
    assert len(taken) == GROUP


def test_the_same_rows_give_the_same_bytes(path):
    again = b"".join(file_pieces(map(made, range(3 * GROUP + 1)), "abc"))
    assert again == path.read_bytes()
    assert pq.read_metadata(path).num_row_groups == 4


def test_a_damaged_group_is_named_when_it_is_read(path):
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(1).column(4)
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)
    file = SftFile(path)
    assert file.row(0) == made(0)
    with pytest.raises(UserError, match=r"rows\.parquet"):
        file.row(GROUP)
