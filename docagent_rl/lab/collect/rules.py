"""Rules and scores by name, for options of commands. Nothing heavy is imported here."""

from collections.abc import Mapping
from enum import StrEnum


class AgentKind(StrEnum):
    """The agent that makes the trajectories of a collection."""

    ENDPOINT = "endpoint"
    """A teacher behind an OpenAI-compatible endpoint."""
    ORACLE = "oracle"
    """A script that knows the references."""
    DETOURS = "detours"
    """The same, which goes astray at times."""


class Rule(StrEnum):
    """The paper by whose rule questions are chosen."""

    DOC_V_STAR = "doc_v_star"
    """Strata by the number of right trajectories of four, drawn 10 : 70 : 20 (Doc-V*, appendix on
    GRPO).
    """
    UNIDOC_RL = "unidoc_rl"
    """The gold pages were found, and one trajectory of five at least is wrong (UniDoc-RL, appendix
    A.3).
    """


class Scoring(StrEnum):
    """The measure of an answer."""

    LIKENESS = "likeness"
    """Names, dates and numbers exactly, free text by edit distance, a refusal where one is
    right.
    """
    OUTCOME = "outcome"
    """The score that the environment gave; an answer that it did not judge has none."""


QUESTIONS = 2048
"""Number of questions that Doc-V* trains on."""
TRAJECTORIES: Mapping[Rule, int] = {Rule.DOC_V_STAR: 4, Rule.UNIDOC_RL: 5}
"""Trajectories of each question, in the papers."""
