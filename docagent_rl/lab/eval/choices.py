"""Choices of an evaluation: its agents, and the conditions of a probe."""

from enum import StrEnum


class Agent(StrEnum):
    """An agent of an evaluation."""

    SYSTEM = "system"
    """The recipe's own."""
    QUESTION_ONLY = "question_only"
    WHOLE_DOCUMENT = "whole_document"
    RAG_TEXT = "rag_text"
    RAG_IMAGE = "rag_image"
    REACT = "react"
    RANDOM = "random"
    """Actions by chance in the recipe's system: the floor."""
    ORACLE = "oracle"
    """The recipe's system by a script that knows the answer: the ceiling."""

    @property
    def baseline(self) -> bool:
        """True for an agent with an environment of its own."""
        return self not in (Agent.SYSTEM, Agent.RANDOM, Agent.ORACLE)

    @property
    def modelled(self) -> bool:
        """True where a model writes the turns."""
        return self not in (Agent.RANDOM, Agent.ORACLE)


class ProbeCondition(StrEnum):
    """A change of the documents that an agent of a probe is shown; searches find the same pages
    under all.
    """

    AS_IS = "as_is"
    """The documents as they are."""
    BLANK = "blank"
    """Every page white, without a text, documents without bookmarks."""
    TEXT_LAYER = "text_layer"
    """Every page white, texts and bookmarks as they are."""
    NO_EVIDENCE = "no_evidence"
    """Pages with evidence for any of the questions white and without text, and no bookmark leads to
    them.
    """
    SHUFFLED = "shuffled"
    """Pages of another document in the places of all, again and again where it is shorter; no
    bookmarks.
    """
