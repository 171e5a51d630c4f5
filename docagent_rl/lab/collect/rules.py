"""Rules and scorings by name, for command-line options. Nothing heavy is imported here."""

from collections.abc import Mapping
from enum import StrEnum


class AgentKind(StrEnum):
    """The agent that plays the trajectories of a collection."""

    ENDPOINT = "endpoint"
    """A teacher behind an OpenAI-compatible endpoint."""
    ORACLE = "oracle"
    """A script that knows the references."""
    DETOURS = "detours"
    """The same script, which sometimes goes astray."""


class BoxFrame(StrEnum):
    """The unit of boxes that a teacher or a grounding model wrote."""

    DISPLAYED = "displayed"
    """Pixels of the image that the model was shown."""
    NORM1000 = "norm1000"
    """Thousandths of each side."""


class Rule(StrEnum):
    """The paper whose rule chooses the questions."""

    DOC_V_STAR = "doc_v_star"
    """Strata by how many of four trajectories are right, drawn 10 : 70 : 20 (Doc-V*, appendix on
    GRPO).
    """
    UNIDOC_RL = "unidoc_rl"
    """The gold pages were found, and at least one of five trajectories is wrong (UniDoc-RL,
    appendix A.3).
    """


class Scoring(StrEnum):
    """A method of scoring an answer."""

    LIKENESS = "likeness"
    """Names, dates and numbers exactly, free text by edit distance, and a refusal where one is
    right.
    """
    OUTCOME = "outcome"
    """The score that the environment gave; an answer that it did not judge has none."""


class Rejection(StrEnum):
    """The reason why a released dialogue becomes no trajectory, in the words of the report."""

    NO_DIALOGUE = "it is not a dialogue"
    IMAGE_COUNT = "its images are not as many as their placeholders"
    JUDGED_WRONG = "its answer was judged wrong"
    NO_QUESTION = "its question cannot be found"
    NO_PAGE = "an image is not named <document>_<page>"
    UNFINISHED = "it does not end with an answer"
    NOT_STORED = "a page is not in the store"
    OUTSIDE = "a box is not on its page"
    FAULTY = "a turn cannot be executed"
    OTHER_PAGES = "the environment shows other images"


QUESTIONS = 2048
"""Number of questions that Doc-V* trains on."""
TRAJECTORIES: Mapping[Rule, int] = {Rule.DOC_V_STAR: 4, Rule.UNIDOC_RL: 5}
"""Trajectories per question in the papers."""
