"""The baselines as systems, by which configurations name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import Marks
from docagent_rl.envs.system import System
from docagent_rl.lab.eval.baselines.config import Material, PageConfig, PageForm, ReactConfig, ReaderConfig
from docagent_rl.lab.eval.baselines.episode import BaselineEnv
from docagent_rl.lab.eval.baselines.grammar import ReactGrammar, ReaderGrammar
from docagent_rl.lab.eval.baselines.react import ReactEnv
from docagent_rl.lab.eval.baselines.reader import ReaderEnv
from docagent_rl.retrieval import Hit


class QuestionOnlyConfig(ReaderConfig):
    """The question alone."""


class WholeDocumentConfig(ReaderConfig):
    """All of the document."""

    material: Material = Material.DOCUMENT


class RagConfig(ReaderConfig):
    """Texts of the pages that one search finds."""

    material: Material = Material.SEARCH


class RagImageConfig(RagConfig):
    """Images of the pages that one search finds."""

    form: PageForm = PageForm.IMAGE


def _system(
    name: str,
    summary: str,
    config_type: type[PageConfig],
    env: type[BaselineEnv],
    grammar: Callable[[], Any],
    max_turns: Callable[[Any], int],
) -> System:
    return System(
        name=name,
        summary=summary,
        config_type=config_type,
        env=env,
        make_grammar=lambda config: grammar(),
        prompt_spec=env.prompt_spec,
        default_prompt=lambda config: env.default_prompt,
        max_turns=max_turns,
        max_images=lambda config: config.max_images,
        marks=Marks("reward/outcome"),
        judged=True,
        # for a tiny model on one core
        small={"display": {"min_pixels": 12544, "max_pixels": 50176}},
    )


def _reader(name: str, summary: str, config_type: type[ReaderConfig]) -> System:
    return _system(name, summary, config_type, ReaderEnv, ReaderGrammar, lambda config: 1)


QUESTION_ONLY = _reader("question_only", "the question alone, no document", QuestionOnlyConfig)
WHOLE_DOCUMENT = _reader("whole_document", "as many pages as fit, from the first on", WholeDocumentConfig)
RAG_TEXT = _reader("rag_text", "the texts of the best pages of one search", RagConfig)
RAG_IMAGE = _reader("rag_image", "the images of the best pages of one search", RagImageConfig)
REACT = _system(
    "react",
    "ReAct with search, open and answer (arXiv 2210.03629)",
    ReactConfig,
    ReactEnv,
    ReactGrammar,
    lambda config: config.max_turns,
)


class Unasked:
    """A retriever that nobody asks, so that no index is needed.

    Args:
        settings: whatever a configuration hands to a class of one's own.
    """

    def __init__(self, **settings: object) -> None:
        del settings

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `Retriever.search`.

        Raises:
            UserError: always.
        """
        raise UserError("this agent searches, and its configuration has no retriever")
