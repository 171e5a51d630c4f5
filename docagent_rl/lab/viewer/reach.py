"""Whether the questions of a run find their own gold pages: asked of the index that the run searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docagent_rl.lab.viewer.index import Index
from docagent_rl.retrieval import Retriever
from docagent_rl.rollout.evidence import Stage, gold_pages

DEPTH = 10
"""Hits that count where no trajectory of the run has searched."""
_QUESTIONS = 100
"""Questions a transaction."""
_OPEN = "stage != '' AND reach IS NULL"


def update_reach(index: Index, retriever: Retriever, trajectory: Callable[[int], Mapping[str, Any]]) -> bool:
    """Ask the questions whose reach is not known; return whether there were any.

    A trajectory whose agent searched with the words of its question has an answer already. Searches are as
    those of the run: as many hits, in the question's document alone or not. `trajectory` reads one by its id.

    Raises:
        UserError: the retriever refuses a question, or a trajectory cannot be read.
        sqlite3.Error: the index cannot be read or written.
    """
    changed = False
    while True:
        with index.reading() as base:
            depth, within = base.execute(
                "SELECT coalesce(max(search_k), 0), coalesce(max(search_within), 1) FROM trajectories"
            ).fetchone()
            questions = base.execute(
                f"SELECT question_id, doc_id, min(id) AS id FROM trajectories WHERE {_OPEN} "
                "GROUP BY question_id, doc_id LIMIT ?",
                (_QUESTIONS,),
            ).fetchall()
        if not questions:
            return changed
        found = []
        for question_id, doc_id, number in questions:
            sample = trajectory(number)["sample"]
            found.append((_finds(retriever, sample, depth or DEPTH, bool(within)), question_id, doc_id))
        with index.writing() as base:
            base.executemany(
                "UPDATE trajectories SET reach = ?1, stage = CASE WHEN ?1 AND stage = "
                f"'{Stage.SOUGHT.value}' "
                f"THEN '{Stage.REACH.value}' ELSE stage END "
                f"WHERE question_id = ?2 AND doc_id = ?3 AND {_OPEN}",
                found,
            )
        changed = True


def _finds(retriever: Retriever, sample: Mapping[str, Any], depth: int, within: bool) -> bool:
    doc_id = str(sample["doc_id"]) if within else None
    (hits,) = retriever.search([str(sample["question"])], doc_id=doc_id, top_k=depth)
    return gold_pages(sample) <= {str(hit.ref) for hit in hits}
