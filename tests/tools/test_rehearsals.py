"""The table of rehearsals in docs/performance.md agrees with the results."""

from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.lab.rehearsal.meter import PartMemory
from docagent_rl.lab.rehearsal.report import GIB, Rehearsal
from tools import rehearsals
from tools.rehearsals import PAGE, RECIPES, RESULTS, Result, make_table, read_results, write_table

STEP = {
    "timing_s/gen": 100.0,
    "timing_s/old_log_prob": 20.0,
    "timing_s/update_actor": 50.0,
    "timing_s/update_critic": 30.04,
    "timing_s/step": 210.0,
    "docagent/trajectories/trained": 160.0,
    "docagent/turns": 5.0,
    "docagent/prefill_ratio": 0.8412,
    "docagent/workers/event_loop_lag_s": 0.0571,
    "global_seqlen/mean": 750_000.0,
}


def rehearsal(name: str = RECIPES[0], ranks: int = 1) -> Rehearsal:
    memory = {"driver": PartMemory(1, GIB, GIB), "rollout servers": PartMemory(2, 3 * GIB, GIB)}
    return Rehearsal(name, {"ranks": ranks, "steps": 1}, 60.0, [STEP], memory, GIB // 4)


def test_the_page_has_the_table_of_all_results():
    page = PAGE.read_text(encoding="utf-8")
    assert make_table(read_results(RESULTS)) in page  # else: python -m tools.rehearsals table


def test_recipes_exist():
    assert set(RECIPES) <= set(recipe_names())
    assert len(set(RECIPES)) == len(RECIPES)


def test_a_result_has_the_numbers_of_all_ranks_and_updates():
    result = Result.of(rehearsal(ranks=2), "0123456789")
    assert result.tokens == 1_500_000
    assert result.seconds["updates"] == 80.0
    assert result.seconds["values"] == 0.0
    assert sum(result.memory_gib.values()) == 4.0
    assert result.moved_gib == 0.25


def test_the_table_names_what_is_missing():
    one = Result.of(rehearsal(), "0123456789")
    head, line, row, *rest = make_table([one]).splitlines()
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert line.count("|") == head.count("|")
    assert cells["updates, s"] == "80"
    assert cells["values, s"] == ""
    assert cells["million tokens"] == "0.75"
    assert f"`{RECIPES[1]}`" in rest[-1]
    assert f"`{RECIPES[0]}`" not in rest[-1]
    assert ", 2 ranks" in make_table([replace(one, ranks=2, prefill=None)])


def test_recipes_with_a_result_are_not_rehearsed_again(tmp_path, monkeypatch):
    rehearsed = []

    def rehearse(name, folder, settings):
        rehearsed.append((name, folder.name, settings.ranks))
        return rehearsal(name, settings.ranks)

    monkeypatch.setattr(rehearsals, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(rehearsals, "rehearse_recipe", rehearse)
    for ranks in (1, 1, 2):
        rehearsals.rehearse(tmp_path, RECIPES[:2], ranks)
    one, other = RECIPES[:2]
    assert rehearsed == [
        (one, one, 1),
        (other, other, 1),
        (one, f"{one}_2_ranks", 2),
        (other, f"{other}_2_ranks", 2),
    ]
    found = read_results(tmp_path / "results")
    assert [(each.recipe, each.ranks) for each in found] == [
        (one, 1),
        (other, 1),
        (one, 2),
        (other, 2),
    ]


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(UserError, match=r"page\.md: the marks"):
        write_table(page, RESULTS)
