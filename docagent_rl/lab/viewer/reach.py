"""Whether the questions of a run find their own gold pages: asked of the index that the run searched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.lab.viewer.schema import reading, writing
from docagent_rl.retrieval import Retriever
from docagent_rl.rollout.evidence import Stage, gold_pages

DEPTH = 10
"""Hits that count where no session of the run has searched."""
_SOME = 100
"""Questions of one change of the index."""

Line = Callable[[int], Mapping[str, Any]]
"""A session as recorded, by its number."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How a run searches.

    Args:
        depth: hits that its searches ask for, the most there are.
        within: in the question's document alone.
    """

    depth: int
    within: bool


def update_reach(index: Path, retriever: Retriever, line: Line) -> bool:
    """Ask for questions of which it is not known; a session that asked its question itself has an answer.

    Args:
        index: of the run.
        retriever: over the same store.
        line: reads a session.

    Returns:
        Whether anything was asked or noted.

    Raises:
        UserError: the retriever refuses a question, or a session cannot be read.
        sqlite3.Error: the index cannot be read or written.
    """
    changed = False
    while True:
        with reading(index) as base:
            how = scope(base)
            open_questions = base.execute(
                "SELECT question_id, doc_id, min(id) AS id FROM sessions WHERE stage != '' AND reach IS NULL "
                "GROUP BY question_id, doc_id LIMIT ?",
                (_SOME,),
            ).fetchall()
        if not open_questions:
            return changed
        found = [
            (*tuple(row)[:2], _finds(retriever, how, line(row["id"])["record"])) for row in open_questions
        ]
        with writing(index) as base:
            for question_id, doc_id, reached in found:
                base.execute(
                    "UPDATE sessions SET reach = ?1, "
                    "stage = CASE WHEN ?1 AND stage = ?2 THEN ?3 ELSE stage END "
                    "WHERE question_id = ?4 AND doc_id = ?5 AND stage != '' AND reach IS NULL",
                    (int(reached), Stage.SOUGHT.value, Stage.REACH.value, question_id, doc_id),
                )
            base.execute("UPDATE state SET revision = revision + 1")
        changed = True


def scope(base: sqlite3.Connection) -> Scope:
    """How the sessions of an index have searched."""
    depth, within = base.execute("SELECT max(search_k), max(search_within) FROM sessions").fetchone()
    return Scope(depth or DEPTH, within is None or bool(within))


def _finds(retriever: Retriever, how: Scope, record: Mapping[str, Any]) -> bool:
    doc_id = str(record["doc_id"]) if how.within else None
    (hits,) = retriever.search([str(record["question"])], doc_id=doc_id, top_k=how.depth)
    return gold_pages(record) <= {str(hit.ref) for hit in hits}
