"""Importers describe their benchmarks as the page does."""

import re
from pathlib import Path

import pytest

from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.importer import by_split
from docagent_rl.samples.sample import Split

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def described(benchmark: Benchmark) -> str:
    """Return the section about a benchmark."""
    sections = PAGE.read_text(encoding="utf-8").split("\n### ")
    (found,) = (each for each in sections if f"data import {benchmark} SRC" in each)
    return found


@pytest.mark.parametrize("benchmark", Benchmark)
def test_released_files_have_as_many_rows_as_the_documentation_says(benchmark):
    released = get_importer(benchmark).released
    text = described(benchmark)
    for (_, split), rows in released.items():
        assert re.search(rf"\b{rows:,}\b", text), (split, rows)
    three = re.search(r"([\d,]+) / ([\d,]+) / ([\d,]+)", text)
    if three:
        rows = {split: count for (_, split), count in released.items()}
        counts = [int(each.replace(",", "")) for each in three.groups()]
        assert counts == [rows[split] for split in (Split.TRAIN, Split.VAL, Split.TEST)]
    elif released:
        assert {split for _, split in released} == {Split.TEST}
    else:
        assert benchmark in (
            Benchmark.VIDORE_V3, Benchmark.VRAG_RL, Benchmark.UNIDOC_RL, Benchmark.ALDEN,
            Benchmark.VISR_BENCH,
        )  # fmt: skip


def test_every_part_of_uda_is_counted():
    """Each part may be imported alone."""
    released = get_importer(Benchmark.UDA).released
    assert {name for name, _ in released} == {"uda_paper_tab", "uda_paper_text", "uda_feta"}


def test_splits_without_rows_are_not_released():
    assert by_split("any", val=3) == {("any", Split.VAL): 3}
    assert by_split("any", 1, 2, 3) == {
        ("any", Split.TRAIN): 1, ("any", Split.VAL): 2, ("any", Split.TEST): 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("benchmark", "first", "last"),
    [(Benchmark.MP_DOCVQA, "image_1", "image_20"), (Benchmark.SLIDEVQA, "page_1", "page_20")],
)
def test_pages_are_twenty_columns(benchmark, first, last):
    pictures = get_importer(benchmark).pictures
    assert (len(pictures), pictures[0], pictures[-1]) == (20, first, last)
