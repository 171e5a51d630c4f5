"""The prompt files of generation and the parts that each must hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts, loaded; `PromptNames` says what each is for."""

    write: PromptTemplate
    page: PromptTemplate
    answer: PromptTemplate
    closed_book: PromptTemplate
    clear: PromptTemplate
    judge: PromptTemplate

    @classmethod
    def load(cls, names: PromptNames) -> Prompts:
        """Load them.

        Raises:
            UserError: a file is missing or does not fit; see `load_prompt`.
        """
        return cls(**{name: load_prompt(getattr(names, name), spec) for name, spec in _SPECS.items()})

    @property
    def digest(self) -> str:
        """SHA-256 over all of them; changes whenever a wording does."""
        digests = (getattr(self, name).digest for name in _SPECS)
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def fill(prompt: PromptTemplate, part: str, **values: Any) -> str:
    """Fill a part with variables that others wrote, their tags broken."""
    return prompt.render(part, **defused_values(values))


def conversation(prompt: PromptTemplate, user: str | list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a request: the file's system part, where it has one, and the user's."""
    first = [{"role": "system", "content": prompt.render("system")}] if "system" in prompt else []
    return [*first, {"role": "user", "content": user}]
