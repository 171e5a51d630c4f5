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


QUESTIONS = 2048
"""Number of questions that Doc-V* trains on."""
TRAJECTORIES: Mapping[Rule, int] = {Rule.DOC_V_STAR: 4, Rule.UNIDOC_RL: 5}
"""Trajectories per question in the papers."""
