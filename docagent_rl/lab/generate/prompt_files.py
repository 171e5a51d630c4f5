"""The prompt files of generation and the parts that each must hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.untrusted import defused_values
from docagent_rl.lab.generate.config import Difficulty, Kind, PromptNames
from docagent_rl.rewards.judge_client import JUDGE_PROMPT

_CHECK = PromptSpec(
    required=frozenset({"user", "again"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "problem"}),
)
_SPECS = {
    "write": PromptSpec(
        required=frozenset({*Kind, *Difficulty, "again"}),
        optional=frozenset({"system"}),
        variables=frozenset({"questions", "pages", "count", "level", "problem"}),
    ),
    "page": PromptSpec(
        required=frozenset({"text", "picture"}), variables=frozenset({"number", "count", "text"})
    ),
    "answer": _CHECK,
    "closed_book": _CHECK,
    "clear": _CHECK,
    "judge": JUDGE_PROMPT,
}


Prompts = Mapping[str, PromptTemplate]
"""All prompts by what each is for: the keys of `PromptNames`."""


def load_prompts(names: PromptNames) -> Prompts:
    """Load all prompts; a `UserError` says which file is missing or does not fit."""
    return {name: load_prompt(getattr(names, name), spec) for name, spec in _SPECS.items()}


def digest_of_prompts(prompts: Prompts) -> str:
    """Return the SHA-256 over all of them, which changes whenever a wording does."""
    return hashlib.sha256(" ".join(prompt.digest for prompt in prompts.values()).encode()).hexdigest()


def fill(prompt: PromptTemplate, part: str, **values: Any) -> str:
    """Fill a part with variables that others wrote, their tags broken."""
    return prompt.render(part, **defused_values(values))


def conversation(prompt: PromptTemplate, user: str | list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a request: the file's system part, where it has one, and the user's."""
    first = [{"role": "system", "content": prompt.render("system")}] if "system" in prompt else []
    return [*first, {"role": "user", "content": user}]
