"""Environments small enough for a tiny model on one core; sizes only, nothing of a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DISPLAY = {"min_pixels": 12_544, "max_pixels": 50_176}
"""16 to 64 visual tokens."""

SMALL: Mapping[str, Mapping[str, Any]] = {
    "alden": {"max_turns": 5, "ocr_tokens": 48, "display": _DISPLAY, "room": {"images": 4}},
    "doc_v_star": {
        "max_turns": 4,
        "overview": {"cell_px": 56, "header_px": 28, "smaller_cells_px": [42, 28]},
        "display": {"long_side": 224, "short_side": 168},
        "retrieval": {"max_pages": 2},
        "fetch": {"max_pages": 2},
        "context_tokens": 2560,
        "reserve_tokens": 64,
    },
    "mm_doc_r1": {
        "max_steps": 3,
        "plan": {"max_items": 4, "max_headings": 12, "max_figures": 6},
        "search": {"top_k": 4, "snippet_chars": 80},
        "read": {"note_tokens": 64},
        "history": {"prompt_tokens": 1200, "reasoning_words": 30, "shortened_note_chars": 80},
    },
    "unidoc_rl": {"max_turns": 4, "image_limit": 5, "display": _DISPLAY, "search": {"scope": "document"}},
    "vrag_rl": {"display": _DISPLAY, "search": {"scope": "document"}},
}
"""By system: what `docagent.env` is when a demo is made without a recipe."""
