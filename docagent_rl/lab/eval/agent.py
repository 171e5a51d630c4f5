"""Agents of an evaluation."""

from __future__ import annotations

from enum import StrEnum


class Agent(StrEnum):
    """An agent that plays."""

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
        """Whether it plays in an environment of its own."""
        return self in _BASELINES

    @property
    def modelled(self) -> bool:
        """Whether a model writes its turns."""
        return self not in (Agent.RANDOM, Agent.ORACLE)


_BASELINES = frozenset(
    {Agent.QUESTION_ONLY, Agent.WHOLE_DOCUMENT, Agent.RAG_TEXT, Agent.RAG_IMAGE, Agent.REACT}
)
