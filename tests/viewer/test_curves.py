from __future__ import annotations

import json

from docagent_rl.viewer.curves import described, read_curves


def write(folder, name, numbers):
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics" / name).write_text(numbers if isinstance(numbers, str) else json.dumps(numbers))


def test_numbers_stand_by_step(tmp_path):
    assert described(read_curves(tmp_path))["names"] == []
    write(tmp_path, "10.json", {"a": 1.0, "b": 2.0})
    write(tmp_path, "2.json", {"a": 0.5, "c": float("nan")})
    write(tmp_path, "val-2.json", {"d": 1.0})
    write(tmp_path, "notes.json", {"e": 1.0})
    write(tmp_path, "3.json", '{"a": ')
    values = {"a": [0.5, None, 1.0], "b": [None, None, 2.0], "c": [None, None, None]}
    assert described(read_curves(tmp_path)) == {
        "names": ["a", "b", "c", "d"],
        "train": {"steps": [2, 3, 10], "values": values},
        "val": {"steps": [2], "values": {"d": [1.0]}},
    }


def test_a_file_that_changes_is_read_again(tmp_path):
    write(tmp_path, "1.json", {"a": 1.0})
    assert read_curves(tmp_path)["train"].values == {"a": [1.0]}
    write(tmp_path, "1.json", {"a": 1.0, "late": 2.0})
    assert read_curves(tmp_path)["train"].values == {"a": [1.0], "late": [2.0]}
