"""Numbers of reports over random runs, against `docagent_rl.lab.eval.metrics` on the recordings."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.eval.metrics.alden import AldenRow, Label, alden_table
from docagent_rl.lab.eval.metrics.doc_v_star import Tool, ToolPages, tool_table
from docagent_rl.lab.eval.metrics.mmlongbench_doc import mmlongbench_acc_f1, mmlongbench_score
from docagent_rl.lab.eval.metrics.scored import Scored
from docagent_rl.lab.eval.metrics.sessions import SessionUse, session_table
from docagent_rl.lab.eval.metrics.vidoseek import grades, retrieval_table
from docagent_rl.lab.eval.report.build import ReportSettings, RunReport, benchmark
from docagent_rl.lab.eval.report.facts import RunFacts
from docagent_rl.lab.eval.report.grids import RunView, grids
from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.lab.eval.scoring.sessions import masked, question, run_of, session, turn

PRICE = Price(2.0, 6.0, 0.5)
LAKE, DECLINED = "Lake Ontario", "This is not answerable."


def random_session(rng: random.Random, number: int, dataset: str):
    """A recording, and what was shown by which tool and answered, told apart from it."""
    none = rng.random() < 0.2
    record = question(
        number,
        dataset=dataset,
        answers=() if none else (LAKE,),
        answerable=not none,
        answer_format="None" if none else "Str",
        evidence_pages=() if none else tuple(sorted(rng.sample(range(1, 10), rng.randrange(1, 4)))),
        extra={"gold": NOT_ANSWERABLE if none else LAKE},
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
    said = rng.choice([None, LAKE, "Lake Ontaria", "Lake Erie", DECLINED])
    if said is not None:
        turns.append(turn("answer", said))
    return session(record, *turns, system="alden"), brought, said


async def reported(path, dataset, seed):
    """The rows of a random run, its numbers by name, and the report."""
    rng = random.Random(seed)
    rows = [random_session(rng, n, dataset) for n in range(80)]
    scored = await score_run(run_of(path, [row[0] for row in rows]), ScoringSettings(price=PRICE))
    found = benchmark(dataset, scored, ReportSettings(draws=20))
    return rows, {n.measure.name: n.interval.value for n in (*found.answers, *found.use)}, found


def near(value):
    return value if value is None else pytest.approx(value, abs=1e-12)


def gold(row):
    return row[0].record["evidence_pages"]


def right(row):
    """Who declines an unanswerable question, or names the lake."""
    return row[2] == (LAKE if row[0].record["answerable"] else DECLINED)


async def test_navigation_use_and_labels_are_those_of_the_tables(tmp_path):
    rows, numbers, found = await reported(tmp_path, "own", 4)
    played = [row for row in rows if not row[0].masked]
    table = alden_table(AldenRow(Label.TIE, gold(r), [p for ps in r[1].values() for p in ps]) for r in played)
    wanted = {
        "page_recall": table.rec, "page_precision": table.pre, "page_f1": table.f1, "unique_pages": table.up,
    }  # fmt: skip
    tools = tool_table(ToolPages(gold(row), row[1]) for row in played)
    for tool, name in ((Tool.RETRIEVAL, "retrieval"), (Tool.FETCH, "fetch")):
        wanted[f"{name}_called"] = tools[tool].ratio
        for part in ("recall", "precision", "f1", "pages"):
            wanted[f"{name}_{part}"] = getattr(tools[tool], part)
    use = session_table([SessionUse.of(row[0]) for row in rows], PRICE)
    wanted |= {"finished": use.finish_rate, "invalid_rate": use.invalid_rate}
    for name in ("turns", "sent_tokens", "output_tokens", "image_tokens", "images", "cost"):
        wanted[name] = getattr(use, name)
    assert {name: numbers[name] for name in wanted} == {
        name: near(mean.value) for name, mean in wanted.items()
    }
    assert numbers["correct"] == near(sum(map(right, played)) / len(rows))
    assert numbers["invalid_turns"] == near(use.invalid_turns)
    assert numbers["seconds"] == near(use.seconds.mean)
    assert asdict(found.seconds) == pytest.approx(asdict(use.seconds))
    assert found.total_cost == near(use.total_cost)
    assert found.masked == {"sample": use.unplayed}
    # latency stands below its mean
    view = RunView(RunReport("run", "a", RunFacts.of({}), (found,), 1, 1), ())
    (grid,) = [grid for grid in grids([view], "own") if "use" in grid.title]
    cells = {row[0]: row[1:] for row in grid.rows}
    assert cells["seconds, median"] == (f"{found.seconds.median:,.1f}", "-")
    assert cells["seconds, longest"] == (f"{found.seconds.worst:,.1f}", "-")
    assert [row[0] for row in grid.rows][-2] == "seconds, 95th percentile"


async def test_mmlongbench_is_scored_as_its_script_does(tmp_path):
    rows, numbers, _ = await reported(tmp_path, "mmlongbench", 5)
    scored = []
    for trajectory, _, said in rows:
        answer, kind = trajectory.record["extra"]["gold"], trajectory.record["answer_format"]
        pred = NOT_ANSWERABLE if said == DECLINED else said or "Failed to extract"
        scored.append(Scored(answer, pred, mmlongbench_score(answer, pred, kind)))
    acc, f1 = mmlongbench_acc_f1(scored)
    assert (numbers["acc"], numbers["f1"]) == (near(acc), near(f1))
    assert 0 < f1 < 1


async def test_vidoseek_is_graded_and_ranked_as_its_script_does(tmp_path):
    rows, numbers, _ = await reported(tmp_path, "vidoseek", 6)
    ranked = []
    for row in rows:
        shown = [page for each in row[0].turns for page in each.info.get("effect", {}).get("pages", ())]
        order = [str(page["number"]) for page in shown]
        ranked.append(([str(page) for page in gold(row)], list(dict.fromkeys(order))))
    means = retrieval_table(ranked)
    assert {name: numbers[name] for name in means} == {name: near(mean.value) for name, mean in means.items()}
    told = grades(None if row[2] is None else 5 if right(row) else 1 for row in rows)
    assert (numbers["grade"], numbers["passing"]) == (near(told.mean), near(told.passing))
