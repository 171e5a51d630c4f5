"""docs/memory.md agrees with what the package computes."""

import re

import pytest

from docagent_rl.checks.budget import GIB, MemoryKind, total
from docagent_rl.checks.cards import card_memory, usable
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe
from docagent_rl.checks.recipe_list import ROOT, recipe_names
from tools.memory_page import memory_page

PAGE = ROOT.parent.parent / "docs" / "memory.md"
KEEP_TOO_MUCH = ("doc_v_star_qwen3_5_9b", "unidoc_rl_qwen3_5_9b")
"""Recipes whose delta nets keep more than a GPU of 80 GB holds."""


@pytest.mark.slow
def test_the_page_is_what_the_command_prints_and_every_recipe_fits_its_gpus():
    page = memory_page()
    assert PAGE.read_text(encoding="utf-8") == page  # else: python -m tools.recipe_pages
    recipes = page[: page.index("## Cards")]
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", recipes, re.MULTILINE))
    assert set(table) == set(recipe_names())
    small = usable(card_memory("80GB")) / GIB
    for recipe, row in table.items():
        if recipe in KEEP_TOO_MUCH:
            assert fits_large_cards(recipe, nodes=1)
        elif recipe.endswith("_30b_a3b"):
            assert fits_large_cards(recipe, nodes=2)
        else:
            assert max(float(cell.replace(",", "")) for cell in row.split(" | ")[:2]) < small, (
                recipe
            )


def fits_large_cards(recipe: str, nodes: int) -> bool:
    large = card_memory("h200")
    lines = budget_of_recipe(recipe, (), Cluster(nodes, 8), large)
    return max(total(lines, place) for place in (MemoryKind.UPDATE, MemoryKind.ROLLOUT)) < usable(
        large
    )
