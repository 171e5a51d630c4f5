"""The baselines as systems, by which configurations name them."""

from __future__ import annotations

from docagent_rl.envs.base import Marks
from docagent_rl.envs.system import System
from docagent_rl.lab.eval.baselines.config import Material, PageForm, ReactConfig, ReaderConfig
from docagent_rl.lab.eval.baselines.grammar import ReactGrammar, ReaderGrammar
from docagent_rl.lab.eval.baselines.react import DEFAULT_PROMPT as REACT_NAME
from docagent_rl.lab.eval.baselines.react import REACT_PROMPT, ReactEnv
from docagent_rl.lab.eval.baselines.reader import DEFAULT_PROMPT as READER_NAME
from docagent_rl.lab.eval.baselines.reader import READER_PROMPT, ReaderEnv

SMALL_DISPLAY = {"display": {"min_pixels": 12544, "max_pixels": 50176}}
"""For a tiny model on one core."""
MARKS = Marks("reward/outcome")


class QuestionOnlyConfig(ReaderConfig):
    """The question alone."""


class WholeDocumentConfig(ReaderConfig):
    """All of the document."""

    material: Material = Material.DOCUMENT


class RagConfig(ReaderConfig):
    """What one search finds, as text."""

    material: Material = Material.SEARCH


class RagImageConfig(RagConfig):
    """What one search finds, as images."""

    form: PageForm = PageForm.IMAGE


def _reader(name: str, summary: str, config_type: type[ReaderConfig]) -> System:
    return System(
        name=name,
        summary=summary,
        config_type=config_type,
        env=ReaderEnv,
        make_grammar=lambda config: ReaderGrammar(),
        prompt_spec=READER_PROMPT,
        default_prompt=lambda config: READER_NAME,
        max_turns=lambda config: 1,
        max_images=lambda config: config.max_images,
        marks=MARKS,
        judged=True,
        small=SMALL_DISPLAY,
    )


QUESTION_ONLY = _reader("question_only", "the question alone, no document", QuestionOnlyConfig)
WHOLE_DOCUMENT = _reader("whole_document", "as many pages as fit, from the first on", WholeDocumentConfig)
RAG_TEXT = _reader("rag_text", "the texts of the best pages of one search", RagConfig)
RAG_IMAGE = _reader("rag_image", "the images of the best pages of one search", RagImageConfig)
REACT = System(
    name="react",
    summary="ReAct with search, open and answer (arXiv 2210.03629)",
    config_type=ReactConfig,
    env=ReactEnv,
    make_grammar=lambda config: ReactGrammar(),
    prompt_spec=REACT_PROMPT,
    default_prompt=lambda config: REACT_NAME,
    max_turns=lambda config: config.max_turns,
    max_images=lambda config: config.max_images,
    marks=MARKS,
    judged=True,
    small=SMALL_DISPLAY,
)
