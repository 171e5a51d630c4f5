import json

import pytest

from docagent_rl.lab.viewer.index import Index
from docagent_rl.lab.viewer.steps import read_curves, step_warnings
from tests.viewer_runs import run_folder, trajectory


def write(folder, name, numbers):
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics" / name).write_text(
        numbers if isinstance(numbers, str) else json.dumps(numbers)
    )


def test_numbers_stand_by_step(tmp_path):
    assert read_curves(tmp_path)["names"] == []
    write(tmp_path, "10.json", {"a": 3.0})  # read again when it changes
    assert read_curves(tmp_path)["train"] == {"steps": [10], "values": {"a": [3.0]}}
    write(tmp_path, "10.json", {"a": 1.0, "b": 2.0})
    write(tmp_path, "2.json", {"a": 0.5, "c": float("nan")})
    write(tmp_path, "val-2.json", {"d": 1.0})
    write(tmp_path, "11.json", {"a": 2.0, "val-aux/d": 3.0})
    write(tmp_path, "notes.json", {"e": 1.0})
    write(tmp_path, "3.json", '{"a": ')
    values = {"a": [0.5, None, 1.0, 2.0], "b": [None, None, 2.0, None], "c": [None] * 4}
    assert read_curves(tmp_path) == {
        "names": ["a", "b", "c", "d", "val-aux/d"],
        "train": {"steps": [2, 3, 10, 11], "values": values},
        "val": {"steps": [2, 11], "values": {"d": [1.0, None], "val-aux/d": [None, 3.0]}},
    }


PLAYED = {"split": "train", "mask": "", "stage": "", "turns": 1, "invalid": 0}


@pytest.fixture
def found(tmp_path):
    """Return the warnings about rows of an index."""

    def warn(rows, split="train"):
        index = Index(tmp_path / "view.sqlite")
        index.path.unlink(missing_ok=True)
        index.prepare()
        with index.writing() as base:
            for place, row in enumerate(rows):
                row["terms"] = json.dumps(row.get("terms", {}))
                names = ", ".join(f'"{name}"' for name in row)
                values = (place, *row.values())
                marks = ", ".join("?" * len(values))
                base.execute(f"INSERT INTO trajectories (id, {names}) VALUES ({marks})", values)
        with index.reading() as base:
            return {each.id: each for each in step_warnings(base, split)}

    return warn


def steps(number=12, *, split="train", **columns):
    """Return rows of eight trajectories per step; a column is a value, or a function of step and
    trajectory, counted from 0.
    """
    for n in range(number):
        for k in range(8):
            given = {
                name: value(n, k) if callable(value) else value for name, value in columns.items()
            }
            yield {**PLAYED, "split": split, "step": n + 1, "uid": f"{n} {k}", **given}


def two_groups(n, k):
    return ("u 2", "u/1")[k // 4]


@pytest.mark.parametrize(
    ("name", "columns", "link"),
    [
        ("collapse:format", {"terms": lambda n, k: {"format": float(n >= 3 or k > 0)}},
        "step=8:12"),
        ("even_groups", {"uid": two_groups, "reward": 1.0}, "uid=u%202&uid=u%2F1"),
        ("truncated", {"truncated": lambda n, k: int(k < 2)}, "truncated=1"),
        ("masked", {"mask": lambda n, k: "sample" if k < 2 else ""}, "status=masked"),
        ("shortcut", {"reward": lambda n, k: n, "stage": lambda n,
        k: "found" if k < n / 3 else "shown"},
         "guessed=1"),
        ("guessed", {"outcome": "right", "stage": "found", "guessed": lambda n, k: int(k < 6)},
        "guessed=1"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_with_its_trajectories(found, name, columns, link):
    said = found(steps(**columns))
    assert list(said) == [name]
    assert link in said[name].filter
    assert said[name].filter.startswith("split=train&step=")


@pytest.mark.parametrize(
    "columns",
    [
        {"terms": {"format": 1.0}},  # never varied
        {"reward": lambda n, k: -n, "stage": lambda n, k: "found" if k < n / 3 else "shown"},
        {"reward": lambda n, k: n, "stage": lambda n, k: "shown" if k < n / 3 else "found"},
        {"uid": two_groups, "reward": lambda n, k: k},
        {"reward": 0.5, "truncated": 0, "outcome": "right", "stage": "shown", "guessed": 0},
    ],
)
def test_what_goes_well_or_always_was_is_no_warning(found, columns):
    assert not found(steps(**columns))


def test_shares_are_of_the_sums_and_said_with_their_counts(found):
    # steps of 1 of 1, 1 of 1 and 0 of 4: 2 of 6, though the mean of the steps' shares is two thirds
    def rows(*last):
        return [
            {**PLAYED, "step": step, "outcome": "right", "stage": "found", "guessed": guessed}
            for step, guessed in [(1, 1), (2, 1), *((3, each) for each in last)]
        ]

    assert not found(rows(0, 0, 0, 0))
    assert found(rows(1, 1, 1, 0))["guessed"].title.startswith("5 of 6 ")


def test_a_change_needs_steps_and_a_validation_no_variance(found):
    fall = {"reward": lambda n, k: n, "stage": lambda n, k: "found" if k < 2 * n else "shown"}
    assert not found(steps(4, **fall))
    assert not found(steps(split="val", uid=two_groups, reward=1.0), split="val")


def test_numbers_come_from_the_trajectories_of_the_index(tmp_path, store, asked):
    given = [
        trajectory(store, number, question=question, step=step, reward=0.0)
        for step in (1, 2) for question in (1, 2) for number in (0, 1)
    ]  # fmt: skip
    given.append(trajectory(store, 9, step=2, status="masked", end="sample", reward=5.0))
    ask = asked(run_folder(tmp_path / "run", given))
    said = {each["id"]: each for each in ask("/api/runs/0/warnings")}
    assert set(said) == {"even_groups", "masked"}
    assert said["even_groups"]["severity"] == "bad"
    for name, part, total in (("even_groups", "4 of 4", 9), ("masked", "1 of 9", 1)):
        assert part in said[name]["title"]
        assert ask(f"/api/runs/0/trajectories?{said[name]['filter']}")["total"] == total


def test_files_that_are_not_as_they_were_written_are_a_warning(tmp_path, store, asked):
    path = run_folder(tmp_path / "run", [trajectory(store, number, step=1) for number in (0, 1)])
    ask, metrics = asked(path), path / "metrics" / "1.json"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole.replace(b"4.0", b"5.0"))
    run = ask.api.runs[0]
    assert run.update()
    assert not run.update()
    (said,) = [each for each in ask("/api/runs/0/warnings") if each["id"] == "damaged"]
    assert (said["severity"], str(metrics) in said["text"]) == ("bad", True)
    metrics.write_bytes(whole)
    assert run.update()
    assert "damaged" not in {each["id"] for each in ask("/api/runs/0/warnings")}
