"""Configuration of the baselines."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.sections import SearchScope


class PageForm(StrEnum):
    """Form of a page."""

    IMAGE = "image"
    TEXT = "text"


class Material(StrEnum):
    """Material beside the question."""

    NONE = "none"
    DOCUMENT = "document"
    """The document's pages from the first on, as many as fit."""
    SEARCH = "search"
    """The best pages of one search for the question itself, as many as fit."""


class PageConfig(Section):
    """How pages are shown and found."""

    form: PageForm = PageForm.TEXT
    scope: SearchScope = SearchScope.DOCUMENT
    top_k: int = Field(5, ge=1)
    """Pages that one search shows."""
    page_tokens: int = Field(2048, ge=1)
    """Most tokens of a page's text."""
    display: DisplayRule = DisplayRule()

    @property
    def max_images(self) -> int:
        """Images of an trajectory at most."""
        return 0

    @property
    def max_image_tokens(self) -> int:
        """Visual tokens of an trajectory at most."""
        return self.max_images * self.display.max_tokens()


class ReaderConfig(PageConfig):
    """Configuration of `ReaderEnv`: one turn, which answers."""

    material: Material = Material.NONE
    max_pages: int | None = Field(None, ge=1)
    """Pages of the whole document at most; null: as many as fit."""
    spare_tokens: int = Field(32, ge=0)
    """Room of a prompt that is left free, for what a chat template adds."""

    prompt: ClassVar = "baseline_reader"
    assistant_turns: ClassVar = 1

    @property
    def max_images(self) -> int:
        """Images of an trajectory at most; of a whole document as many as fit into its prompt."""
        if self.form is PageForm.TEXT or self.material is Material.NONE:
            return 0
        return self.top_k if self.material is Material.SEARCH else self.max_pages or 1


class ReactConfig(PageConfig):
    """Configuration of `ReactEnv`."""

    max_turns: int = Field(10, ge=1)
    """Assistant turns; the last one can only answer."""
    top_k: int = Field(1, ge=1)
    prompt: ClassVar = "baseline_react"

    @property
    def assistant_turns(self) -> int:
        """Assistant turns of an trajectory at most."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """Images of an trajectory at most."""
        return (self.max_turns - 1) * self.top_k if self.form is PageForm.IMAGE else 0
