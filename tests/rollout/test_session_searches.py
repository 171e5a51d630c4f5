from __future__ import annotations

from tests.rollout.stage import search


async def test_searches_are_kept_with_their_hits_and_counted(stage):
    lines = [search("report table"), "nothing", search("report table"), "<answer>x</answer>"]
    session = stage.session(lines)
    await session.play(stage.sample)
    turns = session.trajectory.turns
    assert [len(turn.searches) for turn in turns] == [1, 0, 1, 0]
    first, second = turns[0].searches[0], turns[2].searches[0]
    shown = [page["page"] for page in turns[0].info["effect"]["pages"]]
    assert [page for page, _ in first["hits"]][: len(shown)] == shown
    assert (first["retriever"], first["query"], first["tries"]) == ("retriever", "report table", 1)
    metrics = session.trajectory.metrics
    assert (metrics["retriever/searches"], metrics["retriever/novelty"]) == (2.0, 0.5)
    assert metrics["retriever/distance"] == 0.0
    assert set(session.trajectory.search_s) == {"retriever"}
    assert session.trajectory.search_s["retriever"] == [first["seconds"], second["seconds"]]
