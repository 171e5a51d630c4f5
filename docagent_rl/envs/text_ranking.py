"""The ranking of page texts in systems that search for images and texts of pages."""

from enum import StrEnum


class TextRanking(StrEnum):
    """The ranking that fills the list of page texts, with two modalities."""

    OWN = "own"
    """The ranking of `docagent.text_retriever`, as in the paper."""
    SHARED = "shared"
    """The ranking of `docagent.retriever`: each page that it finds is shown as image and as
    text.
    """
