"""The schemas for editors accept what runs, and refuse what does not."""

import json
from pathlib import Path
from string import Template

import jsonschema
import pytest
import yaml

from docagent_rl.checks.recipe_list import recipe_names

ROOT = Path(__file__).parents[3]
TUNED = "sft_"


def problems(schema: str, values: object) -> list[str]:
    text = (ROOT / "recipes" / "schema" / f"{schema}.json").read_text(encoding="utf-8")
    checker = jsonschema.Draft202012Validator(json.loads(text))
    return [error.message for error in checker.iter_errors(values)]


def recipe(name: str) -> dict:
    return yaml.safe_load((ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8"))


def test_every_recipe_is_accepted():
    names = ["base", "base/docagent", *recipe_names()]
    for name in names:
        schema = "fine_tuning" if name.startswith(TUNED) else "recipe"
        assert problems(schema, recipe(name)) == [], name


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("docagent.rollout.turn_token", 5),
        ("docagent.rollout.turn_tokens", 0),
        ("docagent.console", "long"),
        ("docagent.env.max_turn", 5),
        ("docagent.env.search.top_k", "many"),
    ],
)
def test_a_wrong_key_or_value_is_refused_and_a_right_one_is_not(path, value):
    values = recipe("vrag_rl_qwen2_5_vl_7b")
    assert problems("recipe", values) == []
    *sections, key = path.split(".")
    place = values
    for name in sections:
        place = place.setdefault(name, {})
    place[key] = value
    assert problems("recipe", values) != []


def test_an_interpolation_and_null_are_accepted():
    values = recipe("vrag_rl_qwen2_5_vl_7b")
    values["docagent"]["rollout"] = {"turn_tokens": "${data.max_prompt_length}"}
    values["docagent"]["env"]["max_turns"] = None
    assert problems("recipe", values) == []


def test_the_agent_that_init_writes_is_accepted_and_a_misspelt_key_is_not():
    folder = ROOT / "docagent_rl" / "lab" / "own_agent" / "folder"
    text = (folder / "agent.yaml").read_text(encoding="utf-8")
    chosen = {"documents": "../pdfs", "recipe": "vrag_rl_qwen2_5_vl_7b", "profile": "cpu"}
    values = yaml.safe_load(Template(text).safe_substitute(chosen))
    assert problems("agent", values) == []
    assert problems("agent", {**values, "retriver": "bm25"}) != []
