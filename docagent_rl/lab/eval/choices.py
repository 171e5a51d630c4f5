"""Choices of an evaluation: its agents, and the conditions of a probe."""

from enum import StrEnum


class Agent(StrEnum):
    """An agent that plays the questions of an evaluation."""

    SYSTEM = "system"
    """The recipe's own agent."""
    QUESTION_ONLY = "question_only"
    WHOLE_DOCUMENT = "whole_document"
    RAG_TEXT = "rag_text"
    RAG_IMAGE = "rag_image"
    GOLD_EVIDENCE = "gold_evidence"
    """The evidence pages and no others: the upper bound of whatever finds pages."""
    REACT = "react"
    SEARCH_R1 = "search_r1"
    MDOCAGENT = "mdocagent"
    VIDORAG = "vidorag"
    RANDOM = "random"
    """Random actions in the recipe's system: the lower bound."""
    ORACLE = "oracle"
    """The recipe's system played by a script that knows the answer: the upper bound."""

    @property
    def baseline(self) -> bool:
        """True if the agent has an environment of its own."""
        return self not in (Agent.SYSTEM, Agent.RANDOM, Agent.ORACLE)

    @property
    def several_turns(self) -> bool:
        """True if the agent is a baseline that searches and reads in turns."""
        return self in (Agent.REACT, Agent.SEARCH_R1)

    @property
    def searches_twice(self) -> bool:
        """True if the agent is a baseline that searches page images and page texts, by one ranking
        or by two.
        """
        return self in (Agent.MDOCAGENT, Agent.VIDORAG)

    @property
    def modelled(self) -> bool:
        """True if a model writes the turns."""
        return self not in (Agent.RANDOM, Agent.ORACLE)


class ProbeCondition(StrEnum):
    """A change that a probe makes to the documents that an agent is shown; searches find the same
    pages under every condition.
    """

    AS_IS = "as_is"
    """The documents unchanged."""
    BLANK = "blank"
    """Every page white and without text, documents without bookmarks."""
    TEXT_LAYER = "text_layer"
    """Every page white, texts and bookmarks unchanged."""
    NO_EVIDENCE = "no_evidence"
    """Pages with evidence for any of the questions white and without text, and no bookmark that
    leads to them.
    """
    SHUFFLED = "shuffled"
    """The pages of another document in place of the document's own, repeated where it is shorter;
    no bookmarks.
    """
