import json
import os
import sqlite3
import threading
from itertools import accumulate

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer import index
from docagent_rl.lab.viewer.folder import INDEX, ViewedRun
from docagent_rl.lab.viewer.index import Index, update_viewer_index
from tests.viewer_runs import run_folder, trajectory


def rows(run, what="count(*)"):
    with Index(run.index_file).reading() as base:
        found = base.execute(f"SELECT {what} FROM trajectories ORDER BY step, uid, number")
        return [tuple(row) for row in found]


def told(run, query):
    with Index(run.index_file).reading() as base:
        return base.execute(query).fetchone()[0]


@pytest.fixture
def viewed(run):
    """Return a run that was read."""
    found = ViewedRun(run)
    assert update_viewer_index(found)
    return found


@pytest.fixture
def evaluation(tmp_path, store):
    """Return the one file of an evaluation in progress, and three lines for it."""
    (tmp_path / "run.json").write_text("{}")
    return tmp_path / "trajectories.jsonl", [
        trajectory(store, n).to_json().encode() + b"\n" for n in range(3)
    ]


def test_a_run_is_read_once(viewed, run):
    before = rows(viewed, "*")
    assert len(before) == 5
    assert not update_viewer_index(viewed)
    assert rows(viewed, "*") == before
    assert viewed.index_file == run / INDEX


def test_a_trajectory_keeps_its_number_when_its_file_is_written_again_or_set_aside(
    viewed, run, store
):
    before = dict(rows(viewed, "id, uid || number || step || split"))
    run_folder(
        run, [trajectory(store, 1, said="needle"), trajectory(store, 0), trajectory(store, 2)]
    )
    assert update_viewer_index(viewed)
    after = dict(rows(viewed, "id, uid || number || step || split"))
    assert before.items() < after.items()
    assert len(after) == 6
    (run / "trajectories" / "2.jsonl").unlink()
    assert update_viewer_index(viewed)
    assert rows(viewed) == [(4,)]


def test_a_run_that_goes_on_is_followed(evaluation):
    """An evaluation adds lines to its one file; the last line may be half written."""
    file, lines = evaluation
    file.write_bytes(lines[0] + lines[1][:500])
    viewed = ViewedRun(file.parent)
    update_viewer_index(viewed)
    assert rows(viewed) == [(1,)]
    for more in (lines[1][500:], lines[2]):
        with file.open("ab") as growing:
            growing.write(more)
        assert update_viewer_index(viewed)
    begins = [0, len(lines[0]), len(lines[0]) + len(lines[1])]
    assert rows(viewed, "number, begin") == list(enumerate(begins))
    assert told(viewed, "SELECT count(*) FROM texts_docsize") == 3  # each line once


def test_the_progress_within_a_file_is_reported(evaluation, monkeypatch):
    """An evaluation is one file, so the count of files would say nothing."""
    monkeypatch.setattr(index, "_LINES", 1)
    file, lines = evaluation
    file.write_bytes(b"".join(lines))
    reported = []
    update_viewer_index(ViewedRun(file.parent), lambda *read: reported.append(read))
    sizes = [len(line) for line in lines]
    total = sum(sizes)
    assert reported == [(done, total) for done in accumulate(sizes, initial=0)]


def test_a_file_in_the_place_of_another_is_read_anew(evaluation):
    file, lines = evaluation
    file.write_bytes(lines[0] + lines[1])
    viewed = ViewedRun(file.parent)
    update_viewer_index(viewed)
    other = file.with_name("other")
    other.write_bytes(lines[1] + lines[0] + lines[2])
    other.replace(file)
    update_viewer_index(viewed)
    begins = [len(lines[1]), 0, len(lines[0]) + len(lines[1])]
    assert rows(viewed, "number, begin") == list(enumerate(begins))


def test_of_a_trajectory_that_stands_twice_the_last_line_counts(evaluation, store):
    file, lines = evaluation
    file.write_bytes(lines[0] + trajectory(store, 0, reward=0.0).to_json().encode() + b"\n")
    viewed = ViewedRun(file.parent)
    update_viewer_index(viewed)
    assert rows(viewed, "reward, begin") == [(0.0, len(lines[0]))]
    assert rows(viewed, "terms ->> 'outcome'") == [(0.0,)]


@pytest.mark.parametrize(
    "line",
    [b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"version": 1, "turns": '
                                               b'3}', b'{"record": {}, "turns": [3]}',
     b'{"a": NaN}', b"{"],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_counted(run, line, caplog):
    file = run / "trajectories" / "1.jsonl"
    file.write_bytes(line + b"\n" + file.read_bytes())
    viewed = ViewedRun(run)
    update_viewer_index(viewed)
    assert rows(viewed) == [(5,)]
    assert told(viewed, "SELECT sum(damaged) FROM files") == 1
    assert "at byte 0:" in caplog.text


def test_an_index_that_is_there_is_whole_whoever_makes_it(tmp_path):
    def read(index, errors):
        for _ in range(100):
            if index.path.exists():
                try:
                    with index.reading() as base:
                        base.execute("SELECT count(*) FROM trajectories").fetchone()
                except sqlite3.Error as error:
                    errors.append(error)

    for number in range(10):
        index, errors = Index(tmp_path / f"{number}.sqlite"), []
        makers = [threading.Thread(target=index.prepare) for _ in range(2)]
        threads = [threading.Thread(target=read, args=(index, errors)), *makers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
    assert len(list(tmp_path.iterdir())) == 10  # nothing is left beside them


def test_numbers_that_json_has_no_word_for_are_no_numbers(run):
    file = run / "trajectories" / "1.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[0]["reward"] = lines[0]["turns"][0]["log_probs"][0] = float("nan")
    lines[0]["sample"]["question"] = "half \ud83d"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    viewed = ViewedRun(run)
    update_viewer_index(viewed)
    assert (None, pytest.approx(0.0267, abs=1e-4), "half ?") in rows(
        viewed, "reward, drift, question"
    )


@pytest.mark.parametrize(
    "content", [b"not a database, but longer than a header of one " * 30, None]
)
def test_what_is_no_index_of_this_release_is_made_anew(viewed, run, content):
    if content is None:
        with sqlite3.connect(viewed.index_file) as base:
            base.execute("PRAGMA user_version = 99")
            base.execute("DELETE FROM trajectories")
    else:
        viewed.index_file.write_bytes(content)
    again = ViewedRun(run)
    update_viewer_index(again)
    assert rows(again) == [(5,)]


def test_a_folder_that_cannot_be_written_has_its_index_elsewhere(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    viewed = ViewedRun(run)
    update_viewer_index(viewed)
    assert not (run / INDEX).exists()
    assert viewed.index_file.is_relative_to(tmp_path / "cache")
    assert rows(viewed) == [(5,)]


def test_a_run_that_has_just_begun_has_no_trajectories_yet(tmp_path, store):
    (tmp_path / "hydra").mkdir()
    viewed = ViewedRun(tmp_path)
    assert (update_viewer_index(viewed), rows(viewed)) == (False, [(0,)])
    run_folder(tmp_path, [trajectory(store)])
    assert (update_viewer_index(viewed), rows(viewed)) == (True, [(1,)])


def test_a_run_may_be_named_by_what_is_in_it_and_nothing_else_is_one(tmp_path, run):
    for name in ("", "trajectories", "trajectories/1.jsonl"):
        assert ViewedRun(run / name).path == run
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        with pytest.raises(UserError, match=name):
            ViewedRun(tmp_path / name)


@pytest.mark.parametrize(
    "name",
    ["../run/trajectories/1.jsonl", "trajectories/../../x", "/etc/passwd", "trajectories/x.jsonl"],
)
def test_no_file_beside_its_trajectories_is_read(run, name):
    with pytest.raises(UserError):
        ViewedRun(run).file(name)
