"""The prompt files of generation and what each must hold."""

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
_WRITE = PromptSpec(
    required=frozenset({*Kind, *Difficulty, "again"}),
    optional=frozenset({"system"}),
    variables=frozenset({"questions", "pages", "count", "level", "problem"}),
)
_PAGE = PromptSpec(required=frozenset({"text", "picture"}), variables=frozenset({"number", "count", "text"}))


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts, loaded.

    Args:
        write: asks for questions.
        page: shows a page.
        answer: asks for the answer from pages.
        closed_book: asks for the answer from nothing.
        clear: asks whether a question says what it asks for.
        label: asks whether a question can be searched for.
        judge: compares two answers.
    """

    write: PromptTemplate
    page: PromptTemplate
    answer: PromptTemplate
    closed_book: PromptTemplate
    clear: PromptTemplate
    label: PromptTemplate
    judge: PromptTemplate

    @classmethod
    def load(cls, names: PromptNames) -> Prompts:
        """Load them.

        Raises:
            UserError: a file is missing or does not fit; see `load_prompt`.
        """
        checks = {name: load_prompt(getattr(names, name), _CHECK) for name in _CHECKS}
        return cls(
            write=load_prompt(names.write, _WRITE),
            page=load_prompt(names.page, _PAGE),
            judge=load_prompt(names.judge, JUDGE_PROMPT),
            **checks,
        )

    @property
    def digest(self) -> str:
        """SHA-256 over all of them; changes whenever a wording does."""
        files = (self.write, self.page, self.answer, self.closed_book, self.clear, self.label, self.judge)
        return hashlib.sha256(" ".join(file.digest for file in files).encode()).hexdigest()


_CHECKS = ("answer", "closed_book", "clear", "label")


def fill(prompt: PromptTemplate, part: str, **values: Any) -> str:
    """A part with variables that others wrote, their tags broken."""
    return prompt.render(part, **defused_values(values))


def conversation(prompt: PromptTemplate, user: str | list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages of a request: the file's system part, where it has one, and what the user says."""
    first = [{"role": "system", "content": prompt.render("system")}] if "system" in prompt else []
    return [*first, {"role": "user", "content": user}]
