from dataclasses import replace

import pytest

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason, Observation, Role

SEARCH = 'Where is it? <search>["velmora", "people"]</search>'
READ = 'Now read. <read>[{"page_ids": [2, 4], "query": "How many people?"}]</read>'
FINISH = "Enough. <FINISH>"
ALL = {"page_recall": 1, "correctness": 1, "total": 2}


def text_of(observation: Observation) -> str:
    (message,) = observation.messages
    (part,) = message.parts
    assert message.role is Role.USER
    return part.text


@pytest.fixture
def played(make_mm_env, report_question, play):
    """Play these turns, with settings of the environment by keyword."""

    async def run(*turns, question=None, drop_last=False, **settings):
        sample = report_question(**(question or {}))
        return await play(make_mm_env(**settings), sample, turns, drop_last=drop_last)

    return run


def results(state):
    return [result.record.own["history"]["result"] for result in state.results]


async def test_every_observation_is_a_fresh_context(played, report_question):
    state = await played(SEARCH, "none", READ, FINISH)
    prompts = [state.prompt, *(result.observation for result in state.results[:-1])]
    assert (await played()).prompt == state.prompt
    assert "Steps so far:\nnone" in text_of(state.prompt)
    for number, prompt in enumerate(prompts, start=1):
        assert (prompt.fresh, len(prompt.messages), prompt.images) == (True, 1, ())
        told = [report_question().question, "pages 1 to 6", "(1) Search for: people, velmora"]
        text = text_of(prompt)
        assert [part for part in (*told, f"step {number} of at most 4") if part not in text] == []
        assert [f"\nStep {n}\n" in text for n in range(1, 5)] == [n < number for n in range(1, 5)]
    # the texts of its steps make up that of the trajectory
    texts = [result.record.text for result in state.results]
    assert "\n".join(texts) == state.env.trajectory_text()
    assert texts[0].startswith("Where is it?\n<search>")


async def test_a_search_lists_pages_with_extracts(played):
    state = await played(READ, SEARCH)
    lines = results(state)[1].splitlines()
    assert [line.split(":")[0] for line in lines][:2] == ["p.2 (already read)", "p.3"]
    assert "employs 241 people" in lines[0]
    info = state.results[1].record.to_dict()
    first = info["effect"]["hits"][0]
    assert (first["page"], first["rank"], first["read"], first["gold"]) == ("R#2", 1, True, True)
    assert first["score"] > 0
    assert (info["action"]["kind"], info["action"]["query"]) == ("search", "velmora people")
    assert len(lines) == state.metrics["pages_found"] == 4
    few = await played(
        '<search>["velmora", "teal"]</search>', search={"top_k": 2, "max_keywords": 1}
    )
    # two pages and a remark
    assert len(results(few)[0].splitlines()) == 3
    assert few.results[0].record.own["history"]["action"] == '<search>["velmora"]</search>'


@pytest.mark.parametrize("engine", ["retriever", "document_bm25"])
async def test_either_engine_stays_in_the_window(played, engine):
    window = {"extra": {"window": [3, 6]}}
    state = await played(SEARCH, question=window, search={"engine": engine, "top_k": 3})
    pages = [hit["page"] for hit in state.results[0].record.effect.to_dict()["hits"]]
    assert sorted(pages) == ["R#3", "R#4", "R#5"]


async def test_a_read_shows_the_notes(played):
    state = await played(f"<think>secret</think>{READ}")
    text = text_of(state.results[0].observation)
    assert "Notes on p.2, p.4 for the query: How many people?\nPage 2: 1 Offices" in text
    assert "Reasoning: Now read." in text
    assert "secret" not in text
    assert 'Action: <read>[{"page_ids": [2, 4], "query": "How many people?"}]</read>' in text
    assert state.results[0].record.effect.to_dict()["entries"] == [
        {
            "pages": ["R#2", "R#4"],
            "query": "How many people?",
            "gold": [True, True],
            "cached": False,
        }
    ]
    assert (state.metrics["pages_seen"], state.metrics["retrieval_recall"]) == (2, 1)
    # repeated it counts once
    again = await played(READ, READ, FINISH)
    assert again.results[1].record.effect.to_dict()["entries"][0]["cached"]
    assert results(again)[0] == results(again)[1]
    assert [again.metrics[name] for name in ("pages_seen", "cached_entries", "read_entries")] == [
        2,
        1,
        2,
    ]


async def test_a_page_outside_the_window_does_not_exist(played):
    state = await played(READ, FINISH, question={"extra": {"window": [3, 5]}})
    assert state.results[0].record.effect.to_dict()["entries"][0]["pages"] == ["R#4"]
    # evidence outside the window does not count either
    assert (state.metrics["retrieval_recall"], state.metrics["evidence_dropped"]) == (1, 1)


NO_PAGES = '<read>{"page_ids": [7, 0], "query": "a"}</read>'
CUT = AssistantTurn(f"{SEARCH} and", StopCause.TRUNCATED)


@pytest.mark.parametrize(
    ("turns", "settings", "end", "metrics"),
    [
        # an invalid step is told so; two in a row end the trajectory
        (["I think.", SEARCH, FINISH], {}, EndReason.FINISHED, {"turns": 3, "invalid_actions": 1}),
        ([CUT, READ, FINISH], {}, EndReason.FINISHED, {"searches": 0, "invalid_actions": 1}),
        (
            [READ, "a", "b", SEARCH],
            {},
            EndReason.INVALID,
            {"turns": 3, "ended_invalid": 1, "reward/total": 2},
        ),
        (
            ["a", SEARCH, "b", "c"],
            {"max_invalid_in_a_row": 3},
            EndReason.TURN_LIMIT,
            {"step_limit": 1},
        ),
        # pages that do not exist
        ([NO_PAGES], {}, None, {"invalid/bad_argument": 1, "reads": 0}),
        # the last step is executed; found pages are no read ones
        (
            [SEARCH, SEARCH, SEARCH, READ],
            {},
            EndReason.TURN_LIMIT,
            {"step_limit": 1, "reward/total": 2},
        ),
        ([SEARCH, FINISH], {}, EndReason.FINISHED, {"reward/page_recall": 0, "pages_found": 4}),
        ([FINISH], {}, EndReason.FINISHED, {"reward/total": 0, "abstained": 1}),
        (
            ['<search>["unheardof"]</search>'],
            {},
            None,
            {"no_hit": 1, "searches": 1, "invalid_actions": 0},
        ),
        # surplus actions are counted and not executed
        ([f"{SEARCH}{READ}{FINISH}"], {}, None, {"surplus_actions": 2, "pages_seen": 0}),
    ],
)
async def test_ends(played, turns, settings, end, metrics):
    state = await played(*turns, **settings)
    assert state.results[-1].end is end
    assert {name: state.metrics[name] for name in metrics} == metrics
    assert state.rewards[:-1] == [0] * (len(state.rewards) - 1)


@pytest.mark.parametrize(
    ("empty", "totals"), [("one", (2, 1)), ("zero", (1, 0)), ("correctness", (2, 0))]
)
async def test_unanswerable_questions(played, empty, totals):
    question = {"answers": (), "answerable": False, "evidence_pages": (), "answer_format": "None"}
    setting = {"question": question, "reward": {"empty_evidence": empty}}
    right, wrong = await played(FINISH, **setting), await played(READ, FINISH, **setting)
    assert (right.terms.reward, wrong.terms.reward) == totals
    assert [state.metrics["unanswerable_score"] for state in (right, wrong)] == [1, 0]
    metrics = right.metrics
    assert (metrics["unanswerable"], metrics["has_evidence"], "retrieval_recall" in metrics) == (
        1,
        0,
        False,
    )


async def test_a_long_history_is_shortened(played, report_services):
    turns = [SEARCH, READ, SEARCH, SEARCH]
    full = await played(*turns, max_steps=9)
    assert full.metrics["prompts_shortened"] == 0
    short = await played(
        *turns, max_steps=9, history={"prompt_tokens": 900, "shortened_note_chars": 40}
    )
    text = text_of(short.results[-1].observation)
    assert short.metrics["prompts_shortened"] >= 1
    assert "Found: p.2" in text
    assert text.count("employs 241 people") == 1
    assert "(1) Search for" in text
    # a budget that nothing fits into: the shortest version is offered, and the rollout decides
    tiny = await played(*turns, max_steps=9, history={"prompt_tokens": 64})
    assert "Reasoning" in text_of(tiny.results[0].observation)
    # tokens are counted by the service
    counted = replace(report_services, count_tokens=lambda text: 10 * len(text))
    assert (await played(SEARCH, SEARCH, services=counted)).metrics["prompts_shortened"] == 1


async def test_a_result_that_was_dropped(played):
    """Pages stay read even if the observation with their notes was dropped."""
    state = await played(SEARCH, READ, drop_last=True)
    assert state.terms.values == ALL
    assert (state.metrics["context_full"], state.metrics["finished"]) == (1, 0)
