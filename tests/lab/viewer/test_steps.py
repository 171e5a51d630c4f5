from __future__ import annotations

import json

import pytest

from docagent_rl.lab.viewer.steps import Share, StepNumbers, described, findings, read_curves
from tests.viewer_runs import run_folder, trajectory


def write(folder, name, numbers):
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics" / name).write_text(numbers if isinstance(numbers, str) else json.dumps(numbers))


def test_numbers_stand_by_step(tmp_path):
    assert described(read_curves(tmp_path))["names"] == []
    write(tmp_path, "10.json", {"a": 3.0})  # read again when it changes
    assert read_curves(tmp_path)["train"] == {10: {"a": 3.0}}
    write(tmp_path, "10.json", {"a": 1.0, "b": 2.0})
    write(tmp_path, "2.json", {"a": 0.5, "c": float("nan")})
    write(tmp_path, "val-2.json", {"d": 1.0})
    write(tmp_path, "11.json", {"a": 2.0, "val-aux/d": 3.0})
    write(tmp_path, "notes.json", {"e": 1.0})
    write(tmp_path, "3.json", '{"a": ')
    values = {"a": [0.5, None, 1.0, 2.0], "b": [None, None, 2.0, None], "c": [None] * 4}
    assert described(read_curves(tmp_path)) == {
        "names": ["a", "b", "c", "d", "val-aux/d"],
        "train": {"steps": [2, 3, 10, 11], "values": values},
        "val": {"steps": [2, 11], "values": {"d": [1.0, None], "val-aux/d": [None, 3.0]}},
    }


SHARES = {"reward", "invalid", "truncated", "drift", "shown", "guessed"}


def steps(number=12, **columns):
    """Numbers of steps; a column is a function of the step's place, a plain number the mean of 24."""
    made = []
    for place in range(number):
        given = {name: value(place) if callable(value) else value for name, value in columns.items()}
        shares = {name: given.pop(name) for name in given.keys() & SHARES}
        shares = {name: v if isinstance(v, Share) else Share(24 * v, 24) for name, v in shares.items()}
        made.append(StepNumbers(place + 1, trajectories=8, shares=shares, **given))
    return made


def found(given, split="train", curves=None):
    return {each.id: each for each in findings(given, split, curves)}


@pytest.mark.parametrize(
    ("name", "columns", "link"),
    [
        ("collapse:format", {"terms": lambda n: {"format": (float(n >= 3), 1.0)}}, "step=8-12"),
        ("even_groups", {"groups": 2, "even": ["u/1", "u 2"]}, "uid=u%2F1&uid=u%202"),
        ("invalid", {"invalid": lambda n: n / 20}, "invalid=1:"),
        ("truncated", {"truncated": 0.3}, "truncated=1"),
        ("masked", {"masked": 2}, "status=masked"),
        ("drift", {"drift": 0.2}, "drift=0.05:"),
        ("shortcut", {"reward": lambda n: n / 12, "shown": lambda n: 1 - n / 24}, "guessed=1"),
        ("guessed", {"guessed": 0.9}, "guessed=1"),
    ],
)
def test_what_goes_wrong_is_said_with_its_trajectories(name, columns, link):
    said = found(steps(**columns))
    assert list(said) == [name]
    assert link in said[name].filter
    assert said[name].filter.startswith("split=train&step=")


@pytest.mark.parametrize(
    "columns",
    [
        {"terms": {"format": (1.0, 1.0)}},  # never varied
        {"reward": lambda n: 1 - n / 12, "shown": lambda n: 1 - n / 24},
        {"reward": lambda n: n / 12, "shown": lambda n: n / 24},
        {"invalid": lambda n: 0.5 - n / 40},
        {"groups": 2, "even": []},
        {"reward": 0.5, "invalid": 0.1, "truncated": 0.0, "drift": 0.001, "shown": 0.5, "guessed": 0.1},
    ],
)
def test_what_goes_well_or_always_was_is_no_warning(columns):
    assert not found(steps(**columns))


def test_shares_are_of_the_sums_and_said_with_their_counts():
    # steps of 1 of 1, 1 of 1 and 0 of 4: 2 of 6, though the mean of the steps' shares is two thirds
    made = [steps(1, guessed=Share(*share))[0] for share in ((1, 1), (1, 1), (0, 4))]
    assert not found(made)
    made[2].shares["guessed"] = Share(3, 4)
    assert found(made)["guessed"].title.startswith("5 of 6 ")


def test_entropy_that_is_gone_is_said():
    assert list(found(steps(), curves={"actor/entropy": [1.0, None, 1.0, 0.5, 0.1, 0.05, 0.05, 0.05]})) == [
        "entropy"
    ]
    assert not found(steps(), curves={"actor/entropy": [1.0] * 12})


def test_a_change_needs_steps_and_a_validation_no_variance():
    assert not found(steps(4, invalid=lambda n: n / 4, reward=lambda n: n, shown=lambda n: 1 - n / 4))
    assert not found(steps(groups=2, even=["u", "v"]), split="val")


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


def test_evidence_that_is_shown_no_more_while_the_reward_rises_is_said(tmp_path, store, asked):
    """Whole pages alone, of any size: nothing is zoomed."""
    given = []
    for step in range(1, 7):
        for number in range(2):
            one = trajectory(store, number, question=number, step=step, reward=0.2 + 0.1 * step)
            one.turns = [one.turns[0], one.turns[-1]] if step < 4 else one.turns[-1:]
            given.append(one)
    ask = asked(run_folder(tmp_path / "run", given))
    said = {each["id"]: each for each in ask("/api/runs/0/warnings")}
    assert "to 4 of 4 trajectories and then to 0 of 4" in said["shortcut"]["text"]
    assert ask(f"/api/runs/0/trajectories?{said['shortcut']['filter']}")["total"] == 4
