from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.samples.parquet import (
    SCHEMA,
    parquet_bytes,
    read_parquet,
    read_samples,
    read_table,
    write_parquet,
)
from docagent_rl.samples.sample import Sample, Split, write_jsonl
from docagent_rl.samples.validation import validate_file

Make = Callable[..., Sample]


@pytest.fixture
def samples(make_sample: Make) -> list[Sample]:
    unanswerable = {"answerable": False, "answers": (), "evidence_pages": (), "evidence_boxes": {}}
    return [
        make_sample(),
        make_sample(question_id="q2", split=Split.VAL, **unanswerable),
        make_sample(question_id="q3", extra={"nested": {"3": [1, {"a": None}]}}),
    ]


def change(path: Path, column: str, value: pa.Array | None) -> None:
    """Replace a column of a file, or drop it."""
    table = pq.read_table(path)
    index = table.column_names.index(column)
    table = table.remove_column(index) if value is None else table.set_column(index, column, value)
    pq.write_table(table, path)


def test_samples_survive(samples, tmp_path):
    path = write_parquet(iter(samples), tmp_path / "new" / "train.parquet")
    assert read_parquet(path) == samples
    report = validate_file(path)
    assert (report.rows, report.problems, [sample for _, sample in report.samples]) == (
        3,
        [],
        samples,
    )
    assert list(tmp_path.joinpath("new").iterdir()) == [path]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("sample", None),
        ("data_source", pa.array([1, 2, 3])),
        ("prompt", pa.array(["a", "b", "c"])),
        ("prompt", pa.array([[{"role": "user"}]] * 3)),
        ("extra_info", pa.array([{"index": "0"}] * 3)),
    ],
)
def test_a_wrong_column_is_one_clear_problem(samples, tmp_path, column, value):
    path = write_parquet(samples, tmp_path / "train.parquet")
    change(path, column, value)
    (problem,) = validate_file(path).problems
    assert problem.startswith(f"{path}: ")
    assert f"'{column}'" in problem
    with pytest.raises(UserError, match=rf"train\.parquet.*'{column}'"):
        read_parquet(path)


def test_large_types_and_more_columns_are_fine(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    table = pq.read_table(path).append_column("note", pa.array([1, 2, 3]))
    texts = table.column("sample").cast(pa.large_string())
    pq.write_table(table.set_column(table.column_names.index("sample"), "sample", texts), path)
    assert not validate_file(path).problems
    assert read_parquet(path) == samples


def test_a_bad_row_is_named(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    change(path, "sample", pa.array([samples[0].to_json(), "{", None]))
    with pytest.raises(UserError, match="row 1"):
        read_parquet(path)
    assert len(validate_file(path).problems) == 1


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(UserError, match=r"x\.parquet"):
        write_parquet([], tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()
    (tmp_path / "text.parquet").write_text("{}")
    for name in ("none.parquet", "text.parquet"):
        (problem,) = validate_file(tmp_path / name).problems
        assert name in problem


def test_a_flipped_bit_is_never_another_sample(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    whole, random = path.read_bytes(), Random(1)
    for place in range(4, len(whole) - 4, 23):
        flipped = bytes([whole[place] ^ 1 << random.randrange(8)])
        path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
        try:
            found = read_parquet(path)
        except UserError:
            continue
        assert found == samples, place


def test_files_have_one_schema_and_one_form_whatever_is_in_them(make_sample, tmp_path):
    hidden = make_sample(answers=(), answerable=None)
    path = write_parquet([hidden], tmp_path / "train.parquet")
    table = pq.read_table(path)
    assert table.schema.equals(SCHEMA)
    assert table.to_pylist() == [
        {
            "prompt": [{"role": "user", "content": "How many?"}],
            "data_source": "synthetic",
            "agent_name": "docagent",
            "reward_model": {"style": "rule", "ground_truth": []},
            "extra_info": {"index": 0, "split": "train", "question_id": "q1"},
            "sample": hidden.to_json(),
        }
    ]
    group = pq.read_metadata(path).row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {"ZSTD"}
    assert path.read_bytes() == parquet_bytes([hidden])


def test_rows_are_numbered_in_their_order(samples, tmp_path):
    table = pq.read_table(write_parquet(samples, tmp_path / "train.parquet"))
    assert [row["index"] for row in table.column("extra_info").to_pylist()] == [0, 1, 2]


def test_one_column_may_be_read_alone(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    assert read_table(path, ["sample"]).column_names == ["sample"]


def test_texts_and_names_of_columns_are_unicode(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    damaged = pa.array([b"a", b"\xff\xfe", b"c"], pa.binary()).view(pa.string())
    change(path, "data_source", damaged)
    with pytest.raises(UserError, match=r"train\.parquet: not a Parquet file"):
        read_parquet(path)
    write_parquet(samples, path)
    path.write_bytes(path.read_bytes().replace(b"agent_name", b"agent\xff\xfeame"))
    with pytest.raises(UserError, match=r"train\.parquet: not a Parquet file"):
        read_parquet(path)


def test_a_file_is_read_by_its_suffix(samples, tmp_path):
    path = write_parquet(samples, tmp_path / "train.parquet")
    lines = write_jsonl(samples, tmp_path / "train.jsonl")
    assert read_samples(path) == read_samples(lines) == samples
    with pytest.raises(UserError, match=r"none\.parquet: no such file"):
        read_samples(tmp_path / "none.parquet")
