"""An example of a file of questions."""

from __future__ import annotations

import json

LINES = (
    {
        "doc_id": "report.pdf",
        "question": "How many people work for the company?",
        "answers": "1,204",
        "evidence_pages": [3],
    },
    {
        "doc_id": "report.pdf",
        "question": "In which year was the plant in Lyon opened?",
        "answers": ["1998", "in 1998"],
        "evidence_pages": [5, 12],
    },
    {
        "doc_id": "manual.pdf",
        "question": "Which three colours does the status light show?",
        "answers": ["red", "yellow", "green"],
        "answer_format": "list",
        "evidence_pages": [7],
    },
    {
        "doc_id": "manual.pdf",
        "question": "What does the device cost?",
        "answerable": False,
    },
)
"""An answer, alternatives, a list, and a question that the document does not answer."""


def template() -> str:
    """The file, one JSON object a line."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in LINES)
