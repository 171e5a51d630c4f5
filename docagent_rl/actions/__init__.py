"""Actions, grammars and coordinates."""

from docagent_rl.actions.base import (
    Action,
    Answer,
    Box,
    Crop,
    Fetch,
    Finish,
    Grammar,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Read,
    Search,
    Select,
    Span,
    StopCause,
)

__all__ = [
    "Action",
    "Answer",
    "Box",
    "Crop",
    "Fetch",
    "Finish",
    "Grammar",
    "Invalid",
    "InvalidReason",
    "ParsedTurn",
    "Read",
    "Search",
    "Select",
    "Span",
    "StopCause",
]
