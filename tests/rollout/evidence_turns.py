"""Turns and trajectories as records have them, for tests of evidence."""

from docagent_rl.envs.outcome import OutcomeState

BOX = [0.1, 0.1, 0.5, 0.3]
SIZE = {"size": [280, 168]}


def turn(action, effect, *, hits=(), query="x", row=0, dropped=False):
    """Return a turn as it is recorded: its action, its effect, and the results of a search."""
    known = {"retriever": "retriever", "seconds": 0.1, "tries": 1}
    searches = [{**known, "query": query, "hits": [[page, 1.0] for page in hits]}] if hits else []
    info = {"action": action, "effect": effect, "valid": True, "executed": True}
    return {"info": info, "searches": searches, "row": row, "dropped": dropped}


def search(*pages, hits=None, size=SIZE, kind="pages", **more):
    shown = [{"page": page, **size} for page in pages]
    effect = {"kind": kind, "pages": shown}
    return turn({"kind": "search"}, effect, hits=pages if hits is None else hits, **more)


def crop(page, region, size=SIZE):
    return turn({"kind": "crop"}, {"kind": "crop", "page": page, "region": region, **size})


def shown_image(page):
    return [{"role": "user", "parts": [{"image": {"page": page, **SIZE}}]}]


def answer(text="1990", **more):
    return turn({"kind": "answer", "text": text}, {"kind": "answer"}, **more)


def trajectory(*turns, outcome=OutcomeState.RIGHT, gold=(13,), boxes=None, **more):
    sample = {"doc_id": "r", "question": "When was it opened?", "evidence_pages": list(gold)}
    sample["evidence_boxes"] = boxes or {}
    given = {"sample": sample, "status": "finished", "prompt": []}
    given["outcome"] = outcome and {"state": outcome.value, "score": None}
    return {**given, "turns": list(turns), **more}
