"""Every recipe, as its first line says, for two steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from docagent_rl.recipe_list import recipe_names
from tests.e2e.conftest import Run, add_model
from tests.e2e.custom import SHORT

RECIPES = tuple(recipe_names())

QUESTIONS = {"alden": 12, "doc_v_star": 12}
"""Questions a step, each played by four sessions; the profile takes 4. Some reward terms are rare, and every
one is to vary in any two steps."""
OTHER_QUESTIONS = 8
SYSTEMS = ("alden", "doc_v_star", "mm_doc_r1", "unidoc_rl", "vrag_rl")


def system_of(recipe: str) -> str:
    """The system that a recipe trains."""
    return next(system for system in SYSTEMS if recipe.startswith(system))


def questions(recipe: str) -> int:
    """Questions a step."""
    return QUESTIONS.get(system_of(recipe), OTHER_QUESTIONS)


def chosen(session: pytest.Session) -> list[str]:
    """The recipes that the chosen tests look at."""
    names = {item.callspec.params.get("recipe") for item in session.items if hasattr(item, "callspec")}
    return [recipe for recipe in RECIPES if recipe in names]


def play(recipe: str, folder: Path, workspace: Path, python: Path) -> Run:
    """Two steps of the recipe, on more questions than the profile takes."""
    add_model(workspace, system_of(recipe))
    run = Run(
        folder, workspace, (*SHORT, f"data.train_batch_size={questions(recipe)}"), python, recipe=recipe
    )
    run.finish()
    return run
