"""Numbers of reports on random runs, compared with slow versions computed from the recordings."""

import math
import random

import pytest

from docagent_rl.lab.eval.report.benchmark import ReportSettings, benchmark
from docagent_rl.lab.eval.scoring.played import Tool
from docagent_rl.lab.eval.scoring.protocols import use_values
from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from tests.lab.eval.metrics import slow
from tests.lab.eval.report.scores import scored
from tests.lab.eval.scoring.trajectories import masked, play_of, question, run_of, turn

LAKE, DECLINED = "Lake Ontario", "This is not answerable."


def random_trajectory(rng: random.Random, number: int, dataset: str):
    """Return a recording, the pages that each tool showed, and the answer; the latter two do not
    come from the recording.
    """
    none = rng.random() < 0.2
    sample = question(
        number,
        dataset=dataset,
        answers=() if none else (LAKE,),
        answerable=not none,
        answer_format="None" if none else "Str",
        evidence_pages=() if none else tuple(sorted(rng.sample(range(1, 10), rng.randrange(1, 4)))),
        extra={"gold": NOT_ANSWERABLE if none else LAKE},
    )
    if rng.random() < 0.15:
        return masked(sample, system="alden"), {}, None
    turns, brought = [], {}
    for _ in range(rng.randrange(4)):
        kind = rng.choice(["search", "fetch", "invalid"])
        pages = rng.sample(range(1, 10), rng.randrange(4)) if kind != "invalid" else []
        turns.append(turn(kind, pages=pages, doc_id=sample.doc_id, executed=kind != "invalid"))
        turns[-1].seconds = {"generate": rng.random(), "step": rng.random()}
        turns[-1].observation_tokens = rng.randrange(50)
        if kind != "invalid":
            brought.setdefault(Tool.RETRIEVAL if kind == "search" else Tool.FETCH, []).extend(pages)
    said = rng.choice([None, LAKE, "Lake Ontaria", "Lake Erie", DECLINED])
    if said is not None:
        turns.append(turn("answer", said))
    return play_of(sample, *turns, system="alden"), brought, said


async def reported(path, dataset, seed):
    """Return the rows of a random run, its numbers by name, and the report."""
    rng = random.Random(seed)
    rows = [random_trajectory(rng, n, dataset) for n in range(80)]
    scored = await score_run(run_of(path, [row[0] for row in rows]), ScoringSettings())
    found = benchmark(dataset, scored, ReportSettings(draws=20))
    return rows, {n.measure.name: n.interval.value for n in (*found.answers, *found.use)}, found


def near(values):
    return pytest.approx(math.fsum(values) / len(values), abs=1e-12)


def gold(row):
    return row[0].sample["evidence_pages"]


def right(row):
    """Return whether a row declines an unanswerable question, or names the lake."""
    return row[2] == (LAKE if row[0].sample["answerable"] else DECLINED)


async def test_navigation_and_use_are_means_over_the_trajectories_played(tmp_path):
    rows, numbers, found = await reported(tmp_path, "own", 4)
    played = [row for row in rows if not row[0].masked]
    pages = [
        (set(gold(row)), {page for each in row[1].values() for page in each}) for row in played
    ]
    wanted = {f"page_{name}": values for name, values in slow.page_lists(pages).items()}
    wanted["unique_pages"] = [len(shown) for _, shown in pages]
    for tool, name in ((Tool.RETRIEVAL, "retrieval"), (Tool.FETCH, "fetch")):
        called = [(set(gold(row)), set(row[1][tool])) for row in played if tool in row[1]]
        wanted |= {f"{name}_{part}": values for part, values in slow.page_lists(called).items()}
        wanted[f"{name}_called"] = [tool in row[1] for row in played]
        wanted[f"{name}_pages"] = [len(shown) for _, shown in called]
    wanted["finished"] = [row[2] is not None for row in rows]
    turns = [row[0].turns for row in played]
    invalid = [sum(each.info["action"]["kind"] == "invalid" for each in some) for some in turns]
    wanted["invalid_rate"] = [
        bad / len(some) for bad, some in zip(invalid, turns, strict=True) if some
    ]
    wanted["turns"] = [len(some) for some in turns]
    wanted["seconds"] = [sum(s for each in some for s in each.seconds.values()) for some in turns]
    wanted["correct"] = [right(row) for row in rows]
    assert {name: numbers[name] for name in wanted} == {
        name: near(values) for name, values in wanted.items()
    }
    assert numbers["invalid_turns"] == pytest.approx(sum(invalid) / sum(map(len, turns)))
    assert found.masked == {"sample": len(rows) - len(played)}


def test_what_a_trajectory_takes_is_counted_by_turn():
    def of(row=0, sampled=1, observed=0, dropped=False, images=0):
        observation = [{"role": "user", "parts": [{"text": "x"}, *[{"image": {}}] * images]}]
        return TrajectoryTurn(
            "", "end_of_turn", [0] * sampled, [0.0] * sampled, observation=observation, row=row,
            observation_tokens=observed, dropped=dropped, seconds={"generate": 1.0, "step": 0.5},
        )  # fmt: skip

    turns = [of(0, 2, 3, images=2), of(0, 4, 100), of(1, 5, 0, dropped=True, images=2)]
    trajectory = Trajectory("u", 0, 0, "val", {}, "s", prompt_tokens=10, turns=turns)
    trajectory.prompt = [{"role": "user", "parts": [{"image": {}}]}]
    use = use_values(trajectory)
    assert (use["sent_tokens"], use["output_tokens"]) == (10 + (10 + 2 + 3) + 100, 11)
    assert (use["images"], use["seconds"], use["invalid_rate"]) == (3.0, 4.5, 0.0)
    trajectory.metrics = {"invalid_actions": 2.0, "image_tokens": 7.0, "lost": math.nan}
    use = use_values(trajectory)
    assert (use["invalid"], use["invalid_rate"], use["image_tokens"]) == (2.0, 2 / 3, 7.0)
    assert use["env:image_tokens"] == 7.0
    assert "env:lost" not in use
    trajectory.status = Status.MASKED.value
    assert use_values(trajectory) == {"finished": 0.0}


async def test_effort_of_madqa_is_over_the_whole_run(tmp_path):
    rows, numbers, found = await reported(tmp_path, "madqa", 6)
    # nothing is right where no answer is
    efforts = [
        (len(row[0].turns), slow.anls_star([row[0].sample["answers"]], [row[2] or "-"]) >= 0.5)
        for row in rows
        if not row[0].masked
    ]
    assert {right for _, right in efforts} == {True, False}
    assert numbers["kuiper"] == pytest.approx(slow.kuiper(efforts))
    spent = {
        side: [steps for steps, right in efforts if right is side and steps]
        for side in (True, False)
    }
    means = {side: sum(steps) / len(steps) for side, steps in spent.items()}
    assert numbers["wasted"] == pytest.approx(means[False] / means[True])
    (kuiper,) = [each for each in found.answers if each.measure.name == "kuiper"]
    assert (kuiper.interval.low, kuiper.interval.questions) == (None, 80)


def test_a_number_of_the_environment_that_repeats_one_of_ours_is_left_out():
    def use(**values):
        each = scored(0, 1, values={"turns": 2.0, "invalid_rate": 0.5, "finished": 1.0, **values})
        return [number.measure.name for number in benchmark("own", [each], ReportSettings(5)).use]

    repeated = {"env:turns": 2.0, "env:invalid_action_rate": 0.5, "env:finished": 1.0}
    assert not [name for name in use(**repeated) if name.startswith("env:")]
    # another number under the same name is shown
    assert "env:turns" in use(**{**repeated, "env:turns": 3.0})
    assert "env:searches" in use(**repeated, **{"env:searches": 1.0})
