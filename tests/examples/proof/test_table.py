from dataclasses import replace
from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from proof.plot import draw_results
from proof.results import is_measured, read_results, write_again, write_result
from proof.table import BEGIN, END, make_table, missing, write_table
from proof.unit import Unit
from tests.examples.proof.small import result, warm_start

PAGE = Path(__file__).parents[3] / "docs" / "proof.md"


def row(text, *cells, title="Units"):
    table = text.partition(f"### {title}\n")[2].partition("###")[0]
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(cells))]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_a_row_is_an_arm_over_its_seeds(tmp_path):
    write_result(result(), tmp_path)
    write_result(result(seed=1, after=(0, 0, 1, 0)), tmp_path)
    write_result(result(arm="shuffled", after=(0, 0, 0, 0)), tmp_path)
    table = make_table(tmp_path)
    cells = row(table, "`alden`", "reward")
    assert cells[2:6] == ["3", "0, 1", "0.250", "0.500"]
    assert cells[6].startswith("0.250 [-2.9")
    assert cells[8].startswith("0.500 [0.000, 1.000], 0.000 [0.000, 0.000]")
    assert cells[9] == "a 0.500"
    assert row(table, "`alden`", "shuffled")[6].startswith("-0.250 [-0.750, 0.000]")


def test_the_recipe_stands_beside_each_other_arm_question_by_question(tmp_path):
    write_result(result(after=(1, 1, 1, 0)), tmp_path)
    write_result(result(seed=1, after=(1, 1, 0, 0)), tmp_path)
    write_result(result(arm="shuffled", after=(0, 1, 0, 0)), tmp_path)
    write_result(result(arm="shuffled", seed=1, after=(1, 0, 0, 0)), tmp_path)
    write_result(result(arm="no_fetch", seed=2), tmp_path)
    # the recipe has no such seed as no_fetch
    cells = row(make_table(tmp_path), "`alden`", title="The recipe less the other arms")
    # half of the questions, and a quarter: their mean, and Student's interval of two numbers
    assert cells[1:4] == ["shuffled", "0, 1", "0.375 [-1.213, 1.963]"]
    assert [each.split()[0] for each in cells[4].split("], ")] == ["0.500", "0.250"]
    assert cells[5] == "yes, yes"


def test_a_result_of_other_settings_is_told_and_measured_again(tmp_path):
    write_result(result(settings="another"), tmp_path)
    unit = Unit("alden", "reward", 0)
    assert not is_measured(unit, tmp_path)
    assert unit in missing(read_results(tmp_path))
    assert row(make_table(tmp_path), "`alden`", "reward (other settings)")[5] == "0.750"
    write_result(result(seed=1), tmp_path)
    assert (
        row(make_table(tmp_path), "`alden`", "reward", "3", "1")[3] == "1"
    )  # never one mean of both
    write_result(result(), tmp_path)
    assert is_measured(unit, tmp_path)
    # as is one whose warm start had too few steps
    write_result(replace(result(), warm_start=warm_start("alden", sft_steps=10)), tmp_path)
    table = make_table(tmp_path)
    assert row(table, "`alden`", "reward (other settings)", "3", "0")[3] == "0"
    assert row(table, "`alden`", "reward", "3", "1")[3] == "1"


def test_a_unit_that_was_measured_again_stands_beside_its_first_result(tmp_path):
    write_result(result(commit="a" * 10), tmp_path)
    write_again(result(after=(1, 0, 1, 0), commit="b" * 10), tmp_path)
    assert [run.commit for run in read_results(tmp_path)] == ["a" * 10]
    cells = row(make_table(tmp_path), "`alden`", title="Measured again")
    assert cells[1:4] == ["reward, seed 0", "a" * 10, "0.750"]
    assert cells[5:7] == ["b" * 10, "0.500"]


def test_the_table_of_the_documentation_is_that_of_the_results(tmp_path):
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert rest.partition(END)[0].strip() == make_table().strip()
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(UserError):
        write_table(page, tmp_path)
    assert page.read_text() == "nothing"


def test_the_picture_of_the_documentation_is_that_of_the_results(tmp_path):
    drawn = draw_results(read_results(), tmp_path / "proof.svg")
    assert drawn.read_bytes() == PAGE.with_suffix(".svg").read_bytes()
