"""How the pages of the small corpus are found."""

from __future__ import annotations


def page_word(doc_id: str, page: int) -> str:
    """The word that only this page holds."""
    return f"page{doc_id.lower()}{page}"
