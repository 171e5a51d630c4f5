"""Facts of recorded trajectories, compared with the environments that played them."""

import pytest

from docagent_rl.lab.eval.scoring.played import Tool, read_trajectory
from docagent_rl.lab.eval.scoring.protocols import navigation_values
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv
from tests.lab.eval.scoring.trajectories import answered, masked, play_of, question, recorded, turn
from tests.systems.alden import play as alden
from tests.systems.doc_v_star import play as doc_v_star


async def test_a_trajectory_of_doc_v_star_and_its_line_of_table_5(services, make_sample, play):
    sample = make_sample(doc_id="M", evidence_pages=(3, 4), extra={})
    turns = [
        doc_v_star.retrieve("everypage pagem3"),
        doc_v_star.fetch("[4, 3, 5]", "3"),
        doc_v_star.fetch("[99]", "4"),
        "no form at all",
        doc_v_star.answer("blue", "4, 3"),
    ]
    env = DocVStarEnv(DocVStarConfig(retrieval={"pages": 2}), services)
    trajectory, metrics = await recorded(env, "doc_v_star", sample, turns, play)
    found = read_trajectory(trajectory)
    assert found.answer == "blue"
    # the overview in the prompt shows all pages as thumbnails, which are not collected
    assert set(found.by_tool) == {Tool.RETRIEVAL, Tool.FETCH}
    assert found.collected[0] == ("M", 3)
    assert set(found.collected) == set(found.by_tool[Tool.RETRIEVAL]) | set(
        found.by_tool[Tool.FETCH]
    )
    assert (found.cited, found.answer_page) == ((("M", 4), ("M", 3)), ("M", 4))
    assert len(found.by_tool[Tool.RETRIEVAL]) == 2
    # shown before, page 3 is not brought again, and there is no page 99
    assert set(found.by_tool[Tool.FETCH]) == {("M", 4), ("M", 5)} - set(
        found.by_tool[Tool.RETRIEVAL]
    )
    values = navigation_values(sample, found)
    for name in ("retrieval", "fetch"):
        own = (metrics[f"{name}/used"], metrics[f"{name}/pages"])
        assert (values[f"{name}_called"], values[f"{name}_pages"]) == own
        for part in ("recall", "precision", "f1"):
            assert values[f"{name}_{part}"] == pytest.approx(metrics[f"{name}/page_{part}"])
    for each in trajectory.turns:
        each.dropped = True
    assert read_trajectory(trajectory).by_tool == {Tool.RETRIEVAL: (), Tool.FETCH: ()}


async def test_a_trajectory_of_alden(services, make_sample, play):
    sample = make_sample(extra={}, evidence_pages=(3, 4))
    turns = [alden.search("pagek3"), alden.fetch(4), alden.answer("blue")]
    trajectory, metrics = await recorded(
        AldenEnv(AldenConfig(), services), "alden", sample, turns, play
    )
    found = read_trajectory(trajectory)
    assert (found.answer, found.cited) == ("blue", None)
    assert found.by_tool[Tool.FETCH] == (("K", 4),)
    assert len(set(found.collected)) == metrics["pages_seen"]
    assert found.answer_page == found.collected[-1]


async def test_a_trajectory_of_vrag_rl(make_env, make_sample, play):
    turns = ["<think>a</think><search>pagek3</search>", "<think>b</think><answer>blue</answer>"]
    trajectory, metrics = await recorded(make_env(), "vrag_rl", make_sample(), turns, play)
    found = read_trajectory(trajectory)
    assert (found.answer, found.cited) == ("blue", None)
    assert len(found.collected) == metrics["pages_seen"] > 0
    assert "<search>pagek3</search>" in found.response


async def test_a_trajectory_of_unidoc_rl(services, make_sample, play):
    turns = [
        "<think>a</think><search>pagek3</search>",
        "<think>b</think><select>0</select>",
        "<information>blue</information><answer>blue</answer>",
    ]
    env = UniDocEnv(UniDocConfig.for_variant("paper"), services)
    trajectory, metrics = await recorded(env, "unidoc_rl", make_sample(), turns, play)
    found = read_trajectory(trajectory)
    assert (found.answer, found.cited, found.answer_page) == ("blue", (("K", 3),), ("K", 3))
    assert len(found.collected) == metrics["pages_seen"] > 0


async def test_a_trajectory_of_mm_doc_r1(make_mm_env, report_question, play):
    search = 'Where is it? <search>["velmora", "people"]</search>'
    read = 'Now read. <read>[{"page_ids": [2, 4], "query": "How many people?"}]</read>'
    turns = [search, read, "Enough. <FINISH>"]
    trajectory, metrics = await recorded(make_mm_env(), "mm_doc_r1", report_question(), turns, play)
    found = read_trajectory(trajectory)
    assert found.extracted == "241"
    assert "241" in found.answer
    assert set(found.collected) == set(found.by_tool[Tool.FETCH]) == {("R", 2), ("R", 4)}
    assert len(found.collected) == metrics["pages_seen"]
    assert len(found.by_tool[Tool.RETRIEVAL]) == metrics["pages_found"]


def test_pages_of_the_prompt_are_collected_and_thumbnails_are_not():
    whole = {"image": {"page": "d0#2", "raster": [0, 0, 1, 1], "size": [1, 1]}}
    sheet = {"image": {"tiles": [{"image": {"page": "d0#9"}}], "size": [1, 1]}}
    prompt = [{"role": "user", "parts": [{"text": "x"}, whole, sheet]}]
    found = read_trajectory(play_of(question(), turn("answer", "yes"), prompt=prompt))
    assert (found.collected, found.by_tool) == ((("d0", 2),), {})


@pytest.mark.parametrize(
    ("system", "brought"),
    [("rag_text", {Tool.RETRIEVAL: (("d0", 5), ("d0", 3))}), ("whole_document", {})],
)
def test_a_search_before_the_only_turn_is_retrieval(system, brought):
    shown = {"kind": "answer", "pages": [{"page": "d0#5", "rank": 1}, {"page": "d0#3", "rank": 2}]}
    found = read_trajectory(play_of(question(), turn("answer", "yes", effect=shown), system=system))
    assert (found.collected, found.by_tool) == ((("d0", 5), ("d0", 3)), brought)


def test_what_was_dropped_or_masked_came_to_nothing():
    search = turn("search", pages=(3,))
    search.dropped = True
    found = read_trajectory(play_of(question(), search))
    assert (found.collected, found.by_tool, found.answer) == ((), {Tool.RETRIEVAL: ()}, None)
    found = read_trajectory(masked(question(), turns=[turn("answer", "yes")]))
    assert (found.answer, found.collected, found.cited) == (None, (), None)
    assert read_trajectory(masked(question(), system="doc_v_star")).cited == ()
    # nor did an answer that was not carried out, or says nothing
    assert (
        read_trajectory(play_of(question(), turn("answer", "yes", executed=False))).answer is None
    )
    assert read_trajectory(answered(question(), "  ")).answer is None


@pytest.mark.parametrize(
    "info",
    [
        {"action": None, "effect": 3},
        {"action": {"kind": 7}, "effect": {"pages": 3}, "executed": True},
        {
            "action": {"kind": "search"},
            "effect": {"pages": [None, {"page": "#"}, {"number": "x"}, "d#0"]},
        },
        {"outcome": "text", "relevant_pages": [True, "3", None]},
        {
            "effect": {
                "entries": [{"pages": 3}, None, {"pages": [None, 3, "a#b"]}],
                "kind": "selection",
            }
        },
    ],
)
def test_samples_of_other_environments_are_read_as_far_as_they_go(info):
    found = read_trajectory(
        play_of(question(), turn("answer", "yes"), turn("x", **info), status="finished")
    )
    assert (found.answer, found.collected) == ("yes", ())
