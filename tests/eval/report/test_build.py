"""Numbers of reports over random runs, against the tables of `docagent_rl.eval.metrics` on the recordings."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from docagent_rl.endpoints.price import Price
from docagent_rl.eval.metrics.alden import AldenRow, Label, alden_table
from docagent_rl.eval.metrics.doc_v_star import Tool, ToolPages, tool_table
from docagent_rl.eval.metrics.mmlongbench_doc import mmlongbench_acc_f1, mmlongbench_score
from docagent_rl.eval.metrics.scored import Scored
from docagent_rl.eval.metrics.sessions import SessionUse, session_table
from docagent_rl.eval.metrics.vidoseek import grades, retrieval_table
from docagent_rl.eval.report.build import ReportSettings, RunReport, benchmark
from docagent_rl.eval.report.facts import RunFacts
from docagent_rl.eval.report.grids import RunView, grids
from docagent_rl.eval.scoring.run import ScoringSettings, score_run
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.eval.scoring.sessions import masked, question, run_of, session, turn

PRICE = Price(2.0, 6.0, 0.5)


def random_session(rng: random.Random, number: int, dataset: str):
    """A recording, and what was shown by which tool and answered, told apart from it."""
    none = rng.random() < 0.2
    record = question(
        number,
        dataset=dataset,
        answers=() if none else ("Lake Ontario",),
        answerable=not none,
        answer_format="None" if none else "Str",
        evidence_pages=() if none else tuple(sorted(rng.sample(range(1, 10), rng.randrange(1, 4)))),
        extra={"gold": NOT_ANSWERABLE if none else "Lake Ontario"},
    )
    if rng.random() < 0.15:
        return masked(record, system="alden"), {}, None
    turns, brought = [], {}
    for _ in range(rng.randrange(4)):
        kind = rng.choice(["search", "fetch", "invalid"])
        pages = rng.sample(range(1, 10), rng.randrange(4)) if kind != "invalid" else []
        turns.append(turn(kind, pages=pages, doc_id=record.doc_id, executed=kind != "invalid"))
        turns[-1].seconds = {"generate": rng.random(), "step": rng.random()}
        turns[-1].observation_tokens = rng.randrange(50)
        if kind != "invalid":
            brought.setdefault(Tool.RETRIEVAL if kind == "search" else Tool.FETCH, []).extend(pages)
    said = rng.choice([None, "Lake Ontario", "Lake Ontaria", "Lake Erie", "This is not answerable."])
    if said is not None:
        turns.append(turn("answer", said))
    return session(record, *turns, system="alden"), brought, said


def random_run(dataset, seed=4, number=150):
    rng = random.Random(seed)
    return [random_session(rng, n, dataset) for n in range(number)]


async def reported(path, rows, dataset):
    settings = ScoringSettings(price=PRICE)
    scored = await score_run(run_of(path, [row[0] for row in rows]), settings)
    found = benchmark(dataset, scored, ReportSettings(draws=20))
    return {n.measure.name: n.interval.value for n in (*found.answers, *found.use)}, found


def near(value):
    return value if value is None else pytest.approx(value, abs=1e-12)


async def test_navigation_use_and_labels_are_those_of_the_tables(tmp_path):
    rows = random_run("own")
    numbers, found = await reported(tmp_path, rows, "own")
    played = [row for row in rows if not row[0].masked]

    def gold(row):
        return row[0].record["evidence_pages"]

    # who declines an unanswerable question is right, who names the lake is right
    def label(row):
        wanted = "Lake Ontario" if row[0].record["answerable"] else "This is not answerable."
        return Label.CORRECT if row[2] == wanted else Label.INCORRECT

    table = alden_table(AldenRow(label(r), gold(r), [p for ps in r[1].values() for p in ps]) for r in played)
    for name, mean in (("recall", table.rec), ("precision", table.pre), ("f1", table.f1)):
        assert numbers[f"page_{name}"] == near(mean.value)
    assert numbers["unique_pages"] == near(table.up.value)
    right = sum(label(row) is Label.CORRECT for row in played)
    assert numbers["correct"] == near(right / len(rows))
    tools = tool_table(ToolPages(gold(row), row[1]) for row in played)
    for tool, name in ((Tool.RETRIEVAL, "retrieval"), (Tool.FETCH, "fetch")):
        assert numbers[f"{name}_called"] == near(tools[tool].ratio.value)
        for part in ("recall", "precision", "f1", "pages"):
            assert numbers[f"{name}_{part}"] == near(getattr(tools[tool], part).value)
    use = session_table([SessionUse.of(row[0]) for row in rows], PRICE)
    assert numbers["finished"] == near(use.finish_rate.value)
    assert numbers["invalid_rate"] == near(use.invalid_rate.value)
    assert numbers["invalid_turns"] == near(use.invalid_turns)
    assert numbers["seconds"] == near(use.seconds.mean)
    assert asdict(found.seconds) == pytest.approx(asdict(use.seconds))
    assert found.total_cost == near(use.total_cost)
    for name in ("turns", "sent_tokens", "output_tokens", "image_tokens", "images", "cost"):
        assert numbers[name] == near(getattr(use, name).value)
    assert found.masked == {"sample": use.unplayed}


async def test_latency_stands_below_its_mean(tmp_path):
    _, found = await reported(tmp_path, random_run("own", number=30), "own")
    view = RunView(RunReport("run", "a", RunFacts.of({}), (found,), 1, 1), ())
    (table,) = [grid for grid in grids([view], "own") if "use" in grid.title]
    cells = {row[0]: row[1:] for row in table.rows}
    assert cells["seconds, median"] == (f"{found.seconds.median:,.1f}", "-")
    assert cells["seconds, longest"] == (f"{found.seconds.worst:,.1f}", "-")
    assert [row[0] for row in table.rows][-2] == "seconds, 95th percentile"


async def test_mmlongbench_is_scored_as_its_script_does(tmp_path):
    rows = random_run("mmlongbench", seed=5)
    numbers, _ = await reported(tmp_path, rows, "mmlongbench")
    scored = []
    for trajectory, _, said in rows:
        gold, kind = trajectory.record["extra"]["gold"], trajectory.record["answer_format"]
        pred = NOT_ANSWERABLE if said and said.startswith("This") else said or "Failed to extract"
        scored.append(Scored(gold, pred, mmlongbench_score(gold, pred, kind)))
    acc, f1 = mmlongbench_acc_f1(scored)
    assert (numbers["acc"], numbers["f1"]) == (near(acc), near(f1))
    assert 0 < f1 < 1


async def test_vidoseek_is_graded_and_ranked_as_its_script_does(tmp_path):
    rows = random_run("vidoseek", seed=6)
    numbers, _ = await reported(tmp_path, rows, "vidoseek")
    ranked = []
    for trajectory, _, _ in rows:
        gold = [str(page) for page in trajectory.record["evidence_pages"]]
        order = [
            str(page["number"])
            for each in trajectory.turns
            for page in each.info.get("effect", {}).get("pages", ())
        ]
        ranked.append((gold, list(dict.fromkeys(order))))
    for name, mean in retrieval_table(ranked).items():
        assert numbers[name] == near(mean.value)
    right = [
        5 if said == ("Lake Ontario" if trajectory.record["answerable"] else "This is not answerable.") else 1
        for trajectory, _, said in rows
    ]
    told = grades(None if said is None else grade for grade, (_, _, said) in zip(right, rows, strict=True))
    assert (numbers["grade"], numbers["passing"]) == (near(told.mean), near(told.passing))
