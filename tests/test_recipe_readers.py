"""Every option that a recipe sets is read somewhere."""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from docagent_rl.checks.provenance import FOLDER
from docagent_rl.checks.recipe_list import ROOT

OURS = ("docagent", "defaults", "hydra")
"""`docagent` is a pydantic model, every field of which has a reader of its own kind."""
PASSED_ON = {
    "ray_kwargs.ray_init": "handed to ray.init",
    "actor_rollout_ref.rollout.engine_kwargs.vllm": "handed to vLLM",
    "actor_rollout_ref.model.override_config": "handed to transformers",
    "critic.model.override_config": "handed to transformers",
    "model.override_config": "handed to transformers",
    "data.apply_chat_template_kwargs": "handed to the chat template by docagent_rl.rollout.chat",
}
"""Sections whose keys are somebody else's."""
READ_BY_US = {
    "actor_rollout_ref.actor.freeze_vision_tower": "declared by verl and read by none of it",
    "data.store": "read by docagent_rl.lab.sft.dataset",
}


def leaves(section: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in section.items():
        path = f"{prefix}{key}"
        if path in PASSED_ON or (not prefix and key in OURS):
            continue
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}.")
        else:
            yield path


def set_by_recipes() -> dict[str, set[str]]:
    """Return every option, with the files that set it."""
    found: dict[str, set[str]] = {}
    for file in Path(str(ROOT)).rglob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        if text.startswith("# @package docagent") or file.parent.name == FOLDER:
            continue
        if "papers" in file.parts:  # manifests, which are no configuration
            continue
        for path in leaves(yaml.safe_load(text)):
            found.setdefault(path, set()).add(file.name)
    return found


@cache
def words_of_readers() -> frozenset[str]:
    """Return the attributes and strings in verl and its transfer queue, except where options are
    declared.
    """
    words: set[str] = set()
    for package in ("verl", "transfer_queue"):
        home = Path(importlib.util.find_spec(package).origin).parent
        for file in home.rglob("*.py"):
            if "config" in file.relative_to(home).parts[:-1]:
                continue
            text = file.read_text(encoding="utf-8", errors="ignore")
            words.update(
                re.findall(r"\.([A-Za-z_]\w*)", text), re.findall(r"[\"']([A-Za-z_]\w*)[\"']", text)
            )
    return frozenset(words)


def test_every_option_has_a_reader():
    options = set_by_recipes()
    assert len(options) > 80
    unread = {
        path: files
        for path, files in options.items()
        if path.split(".")[-1] not in words_of_readers()
    }
    assert {path: files for path, files in unread.items() if path not in READ_BY_US} == {}


@pytest.mark.parametrize("option", ["grad_clip", "freeze_vision_tower"])
def test_options_that_verl_declares_and_does_not_read_are_found(option):
    assert option not in words_of_readers()


def test_the_clip_that_counts_is_the_one_that_is_set():
    """verl uses `clip_ratio` only if the two other keys are null, which they never are by
    default.
    """
    assert "actor_rollout_ref.actor.clip_ratio" not in set_by_recipes()
