import math
import re
from pathlib import Path

import pytest

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sft.md").read_text(encoding="utf-8")


def cells() -> dict[str, list[str]]:
    """Return the table of recipes, by the first recipe of each line."""
    lines = (line for line in PAGE.splitlines() if line.startswith("| `sft_"))
    split = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines)
    return {re.findall(r"`(\w+)`", row[0])[0]: row for row in split}


@pytest.mark.parametrize("recipe", cells())
def test_the_table_says_what_the_recipes_have(recipe):
    _, _, rate, schedule, epochs, batch, longest, tower, _ = cells()[recipe]
    config = composed_recipe(recipe)
    assert float(rate) == config.optim.lr
    assert schedule.startswith(config.optim.lr_scheduler_type)
    assert float(schedule.split()[-1]) == config.optim.lr_warmup_steps_ratio
    assert int(epochs) == config.trainer.total_epochs
    assert math.prod(map(int, re.findall(r"\d+", batch))) == config.data.train_batch_size
    assert int(longest.replace(",", "")) == config.data.max_length
    assert (tower == "frozen") is config.docagent.freeze_vision_tower
    assert "hf_model" in config.checkpoint.save_contents  # the export that RL starts from


def test_every_recipe_is_in_the_table_and_what_is_named_exists():
    told = {
        *cells(),
        *(name.replace("7b", "3b") for name, row in cells().items() if "_3b" in row[0]),
    }
    assert told == set(recipe_names(kind=TrainerKind.SFT))
    assert set(re.findall(r"--config-name\s+\\?\s*(\w+)", PAGE)) <= set(recipe_names(kind=None))
    for path in set(re.findall(r"`((?:tests|patches|docagent_rl)/[\w/.]+\.py)", PAGE)):
        assert (DOCS.parent / path).is_file(), path
