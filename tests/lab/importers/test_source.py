"""Files of a download: rows, splits, pictures, and the names of documents."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DocumentError
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    RowReader,
    column_pages,
    page_images,
    pdfs,
    picture_bytes,
    split_in,
    split_named,
)
from docagent_rl.samples.sample import Split
from tests.lab.importers.test_picture_sets import deck_row, mp_hub_row


@pytest.fixture
def source(files) -> ImportSource:
    files.root.mkdir()
    return ImportSource(files.root)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone: no such folder"):
        ImportSource(tmp_path / "gone")


def test_files_of_the_first_pattern_that_matches(files, source):
    for name in ("b.json", "a.json", "data/c.json"):
        files.json(name, [])
    (files.root / "folder.json").mkdir()
    found = [path.name for path in source.find("*.jsonl", "*.json", "data/*.json")]
    assert found == ["a.json", "b.json"]
    together = [path.name for path in source.find("data/*.json b.json")]
    assert together == ["b.json", "c.json"]
    assert source.find("*.csv") == []
    with pytest.raises(
        UserError,
        match=r"looked for \*\.csv, \*\.tsv; the folder contains a\.json, b\.json",
    ):
        source.require("*.csv", "*.tsv")
    alone = ImportSource(files.root / "a.json")
    assert (alone.find("data/*.json"), alone.root) == ([files.root / "a.json"], files.root)
    assert source.label(files.root / "data" / "c.json") == "data-c"


def test_rows_of_json(files, source):
    listed = files.json("a.json", [{"x": 1}, 2])
    wrapped = files.json("b.json", {"data": [3]})
    assert list(source.rows(listed)) == list(source.rows(listed, under="data")) == [{"x": 1}, 2]
    assert list(source.rows(wrapped, under="data")) == [3]
    with pytest.raises(UserError, match=r"b\.json: expected a list of rows, found dict"):
        source.rows(wrapped)
    with pytest.raises(UserError, match=r"or an object with the list 'rows', found NoneType"):
        source.rows(wrapped, under="rows")
    with pytest.raises(UserError, match=r"c\.json: not valid JSON"):
        source.rows(files.text("c.json", "[1,"))
    assert source.read == [listed, listed, wrapped, wrapped, wrapped, files.root / "c.json"]


def test_lines_end_at_line_feeds_alone(files, source):
    text = '{"a": 1,\r "b": "\u2028"}\r\n\n{"cut"\n'
    path = files.text("a.jsonl", text)
    path.write_bytes(text.encode())
    assert list(source.rows(path)) == [{"a": 1, "b": "\u2028"}, '{"cut"\n']
    assert source.read == [path]
    path.write_bytes(b"\xef\xbb\xbf[1]\n")  # a byte order mark
    assert list(source.rows(path)) == [[1]]


@pytest.mark.parametrize(
    ("benchmark", "name", "row"),
    [
        (Benchmark.MP_DOCVQA, "data/val-0.parquet", mp_hub_row(["a_p1", "a_p2"])),
        (Benchmark.SLIDEVQA, "data/val-0.parquet", deck_row(2)),
    ],
)
def test_pictures_are_not_read_with_the_questions(files, benchmark, name, row):
    """A file of pages has gigabytes of pictures."""
    importer = get_importer(benchmark)
    path = files.parquet(name, [row, row])
    rows = list(importer.rows(ImportSource(files.root)))
    assert [each.number for each in rows] == [0, 1]
    assert set(rows[0].values) == set(row) - set(importer.pictures)
    assert set(importer.pictures) <= set(pq.read_schema(path).names)


def test_splits_by_name():
    assert [split_named(name) for name in ("dev", " Validation", "TRAIN", "trial", None, 7)] == [
        Split.VAL, Split.VAL, Split.TRAIN, None, None, None,
    ]  # fmt: skip


def test_splits_by_the_last_place_that_speaks_of_one(tmp_path):
    def named(path: str) -> Split | None:
        return split_in(tmp_path / path, tmp_path, None)

    assert named("train/val-0001.parquet") is Split.VAL
    assert named("test/part.dev_train.json") is Split.VAL
    assert named("train/part.json") is Split.TRAIN
    assert named("training/part.json") is None
    assert split_in(tmp_path / "part.json", tmp_path, Split.TEST) is Split.TEST


def test_pdfs_are_files_with_plain_names(files):
    for name in ("a/r.pdf", "b/r.pdf", "b/s.PDF"):
        files.pdf(name, 1)
    files.text("b/notes.txt", "")
    files.text("b/.hidden.pdf", "")
    (files.root / "b" / "folder.pdf").mkdir()
    assert pdfs(files.root, "c/*", "*/*").keys() == {"r", "s"}
    assert pdfs(files.root, "*/*")["r"].files == (files.root / "a" / "r.pdf",)
    assert pdfs(files.root, "*/*")["r"].namesakes == (files.root / "b" / "r.pdf",)
    assert pdfs(files.root, "b/*", "a/*")["r"].files == (files.root / "b" / "r.pdf",)
    assert pdfs(files.root, "c/*") == {}


def test_page_images_are_numbered_without_a_gap(files):
    for name in (
        "a_1.jpg",
        "a_2.png",
        "a_10.jpg",
        "b_0.jpg",
        "b_1.jpg",
        "c_x.jpg",
        "c_²1.jpg",
        "_1.jpg",
    ):
        files.text(name, "")
    for number in range(3, 10):
        files.text(f"a_{number}.jpg", "")
    files.text("d_1.txt", "")
    found = page_images(files.root, "*")
    assert [path.stem for path in found["a"].files] == [f"a_{number}" for number in range(1, 11)]
    assert found.keys() == {"a"}
    assert page_images(files.root, "*", first=0).keys() == {"b"}


@pytest.fixture
def table(files):
    """Return a table of rows 0 to 6 in groups of three."""
    path = files.root / "rows.parquet"
    path.parent.mkdir()
    columns = {
        "id": list(range(7)),
        "image": [b"%d" % number for number in range(7)],
        "text": ["t"] * 7,
    }
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


def test_rows_of_a_range_are_read_over_groups(table):
    reader = RowReader(table, ["id", "image"])
    for first in range(8):
        for end in range(first, 8):
            rows = list(reader.rows(first, end))
            assert [row["id"] for row in rows] == list(range(first, end))
            assert all(set(row) == {"id", "image"} for row in rows)
    assert reader._group[1].column_names == ["id", "image"]
    for first, end in ((0, 8), (-1, 2), (3, 2)):
        with pytest.raises(DocumentError, match=rf"no rows {first} to {end} in rows\.parquet"):
            list(reader.rows(first, end))


def test_a_group_of_rows_is_read_once(table):
    reader = RowReader(table, ["id"])
    first = list(reader.rows(0, 1))
    table.unlink()
    assert [row["id"] for row in (*first, *reader.rows(1, 3))] == [0, 1, 2]
    with pytest.raises(UserError, match=r"rows\.parquet"):
        list(reader.rows(3, 4))


def test_pictures_are_bytes_or_objects_with_bytes():
    assert picture_bytes(b"x") == picture_bytes({"bytes": b"x", "path": None}) == b"x"
    assert [picture_bytes(each) for each in (b"", "text", None, {"bytes": None}, {}, 7)] == [
        None
    ] * 6


def test_pages_in_columns_end_with_the_last_picture(files):
    columns = ("p1", "p2", "p3")
    rows = [
        {"p1": b"a", "p2": b"b", "p3": None},
        {"p1": b"a", "p2": None, "p3": b"c"},
        dict.fromkeys(columns),
    ]
    schema = pa.schema([(name, pa.binary()) for name in columns])
    path, readers = files.parquet("pages.parquet", rows, schema), {}
    first, gap, empty = (column_pages(readers, "d", path, row, columns) for row in range(3))
    assert first.pictures() == [b"a", b"b"]
    assert (first.doc_id, first.place, gap.place) == ("d", (str(path), 0), (str(path), 1))
    for broken in (gap, empty):
        with pytest.raises(DocumentError, match="no picture"):
            broken.pictures()
    assert list(readers) == [path]  # one reader serves all


def test_the_digest_of_pictures_is_over_the_digests_of_each():
    hashes = "".join(hashlib.sha256(content).hexdigest() for content in (b"a", b"b"))
    document = NativeDocument("d", pictures=lambda: [b"a", b"b"])
    assert document.digest() == hashlib.sha256(hashes.encode()).hexdigest()
