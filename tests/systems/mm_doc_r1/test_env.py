from __future__ import annotations

import json
from dataclasses import replace

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason, Observation, Role
from docagent_rl.errors import UserError
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from docagent_rl.systems.mm_doc_r1.system import SYSTEM

SEARCH = 'Where is it? <search>["velmora", "people"]</search>'
READ = 'Now read. <read>[{"page_ids": [2, 4], "query": "How many people?"}]</read>'
FINISH = "Enough. <FINISH>"


def text_of(observation: Observation) -> str:
    (message,) = observation.messages
    (part,) = message.parts
    assert message.role is Role.USER
    return part.text


def result_of(result) -> str:
    return result.info["history"]["result"]


async def test_the_prompt(make_mm_env, report_question):
    prompt = await make_mm_env().reset(report_question())
    text = text_of(prompt)
    for part in (
        report_question().question,
        "pages 1 to 6",
        "Plan:\n(1) Search for: people, velmora",
        "step 1 of at most 4",
    ):
        assert part in text
    assert "Steps so far:\nnone" in text
    assert prompt.images == ()
    assert await make_mm_env().reset(report_question()) == prompt


async def test_every_observation_is_a_fresh_context(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [SEARCH, "none", READ, FINISH])
    prompts = [episode.prompt, *(result.observation for result in episode.results[:-1])]
    assert all(prompt.fresh and len(prompt.messages) == 1 for prompt in prompts)
    for number, prompt in enumerate(prompts, start=1):
        text = text_of(prompt)
        assert f"step {number} of at most 4" in text
        assert report_question().question in text
        assert [f"\nStep {n}\n" in text for n in range(1, 5)] == [n < number for n in range(1, 5)]


async def test_a_search_lists_pages_with_extracts(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [READ, SEARCH])
    lines = result_of(episode.results[1]).splitlines()
    assert [line.split(":")[0] for line in lines][:2] == ["p.2 (already read)", "p.3"]
    assert "employs 241 people" in lines[0]
    assert len(lines) == 4
    effect = episode.results[1].info["effect"]
    assert effect["kind"] == "hits"
    first = effect["hits"][0]
    assert (first["page"], first["rank"], first["read"], first["gold"]) == ("R#2", 1, True, True)
    assert first["score"] > 0
    assert episode.results[1].info["action"]["kind"] == "search"
    assert episode.results[1].info["action"]["query"] == "velmora people"
    assert episode.metrics["pages_found"] == 4


async def test_a_search_without_hits(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), ['<search>["unheardof"]</search>'])
    assert episode.results[0].info["valid"]
    metrics = episode.metrics
    assert (metrics["no_hit"], metrics["searches"], metrics["invalid_actions"]) == (1, 1, 0)


async def test_limits_of_a_search(make_mm_env, report_question, play):
    env = make_mm_env(search={"top_k": 2, "max_keywords": 1})
    episode = await play(env, report_question(), ['<search>["velmora", "teal"]</search>'])
    lines = result_of(episode.results[0]).splitlines()
    assert len(lines) == 3
    assert "1" in lines[-1]
    assert episode.results[0].info["history"]["action"] == '<search>["velmora"]</search>'


async def test_the_best_extract_is_kept(make_mm_env, report_question, play):
    turns = [
        '<search>["kantora"]</search>',
        '<search>["people", "port"]</search>',
        '<search>["velmora"]</search>',
    ]
    env = make_mm_env(search={"snippet_chars": 30})
    await play(env, report_question(), turns)
    # seen by the answer agent, which the episode has not reached: look inside
    assert env.episode.found[2].words == 2


async def test_the_retriever_can_search(make_mm_env, report_question, play):
    sample = report_question(extra={"window": [3, 6]})
    for engine in ("retriever", "document_bm25"):
        episode = await play(make_mm_env(search={"engine": engine, "top_k": 3}), sample, [SEARCH])
        pages = [hit["page"] for hit in episode.results[0].info["effect"]["hits"]]
        assert sorted(pages) == ["R#3", "R#4", "R#5"]


async def test_a_read_shows_the_notes(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [READ])
    text = text_of(episode.results[0].observation)
    assert "Notes on p.2, p.4 for the query: How many people?\nPage 2: 1 Offices" in text
    assert "Reasoning: Now read." in text
    assert 'Action: <read>[{"page_ids": [2, 4], "query": "How many people?"}]</read>' in text
    effect = episode.results[0].info["effect"]
    assert effect["entries"] == [
        {"pages": ["R#2", "R#4"], "query": "How many people?", "gold": [True, True], "cached": False}
    ]
    assert (episode.metrics["pages_seen"], episode.metrics["retrieval_recall"]) == (2, 1)


async def test_several_entries_and_remarks(make_mm_env, report_question, play):
    body = [
        {"page_ids": [1, 99, 2, 3, 4], "query": ""},
        {"page_ids": 5, "query": "b"},
        {"page_ids": [6], "query": "c"},
    ]
    episode = await play(make_mm_env(), report_question(), [f"<read>{json.dumps(body)}</read>"])
    result = episode.results[0]
    assert [entry["pages"] for entry in result.info["effect"]["entries"]] == [["R#1", "R#2", "R#3"], ["R#5"]]
    remarks = result.info["effect"]["remarks"]
    assert len(remarks) == 4
    assert all(remark in text_of(result.observation) for remark in remarks)
    assert "99" not in result.info["history"]["action"]
    metrics = episode.metrics
    assert (metrics["read_entries"], metrics["reads"], metrics["pages_seen"]) == (2, 1, 4)
    assert metrics["retrieval_recall"] == 0.5


async def test_a_repeated_read_counts_once(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [READ, READ, FINISH])
    assert episode.results[1].info["effect"]["entries"][0]["cached"]
    assert result_of(episode.results[0]) == result_of(episode.results[1])
    metrics = episode.metrics
    assert (metrics["pages_seen"], metrics["cached_entries"], metrics["read_entries"]) == (2, 1, 2)


async def test_a_read_without_existing_pages_is_invalid(make_mm_env, report_question, play):
    episode = await play(
        make_mm_env(), report_question(), ['<read>{"page_ids": [7, 0], "query": "a"}</read>']
    )
    (result,) = episode.results
    info = result.info
    assert (info["valid"], info["reason"], info["executed"]) == (False, "bad_argument", False)
    assert "7, 0" in result_of(result)
    assert (episode.metrics["pages_seen"], episode.metrics["reads"]) == (0, 0)


async def test_a_page_outside_the_window_does_not_exist(make_mm_env, report_question, play):
    sample = report_question(extra={"window": [3, 5]})
    episode = await play(make_mm_env(), sample, [READ, FINISH])
    assert episode.results[0].info["effect"]["entries"][0]["pages"] == ["R#4"]
    # evidence outside the window does not count either
    assert episode.metrics["retrieval_recall"] == 1
    assert episode.metrics["evidence_dropped"] == 1


@pytest.mark.parametrize("turn", ["I think.", "<search>words</search>"])
async def test_an_invalid_step_is_told_so(make_mm_env, report_question, play, turn):
    episode = await play(make_mm_env(), report_question(), [turn, SEARCH, FINISH])
    assert episode.results[-1].end is EndReason.FINISHED
    assert (episode.metrics["turns"], episode.metrics["invalid_actions"]) == (3, 1)


async def test_two_invalid_steps_in_a_row_end_the_episode(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [READ, "a", "b", SEARCH])
    assert len(episode.results) == 3
    assert episode.results[-1].end is EndReason.INVALID
    # the answer is written from what was read
    assert episode.terms.values == {"page_recall": 1, "correctness": 1, "total": 2}
    assert episode.metrics["ended_invalid"] == 1
    patient = await play(make_mm_env(max_invalid_in_a_row=3), report_question(), ["a", SEARCH, "b", "c"])
    assert patient.results[-1].end is EndReason.TURN_LIMIT


async def test_the_last_step_is_executed(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [SEARCH, SEARCH, SEARCH, READ])
    assert len(episode.results) == 4
    last = episode.results[-1]
    assert last.end is EndReason.TURN_LIMIT
    assert last.info["executed"]
    assert last.terms.values == {"page_recall": 1, "correctness": 1, "total": 2}
    assert episode.metrics["step_limit"] == 1
    assert episode.rewards == [0, 0, 0, 2]


async def test_finishing_at_once(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [FINISH])
    assert episode.results[-1].end is EndReason.FINISHED
    assert episode.terms.values == {"page_recall": 0, "correctness": 0, "total": 0}
    assert episode.results[-1].info["outcome"]["extracted"] == "Not answerable"
    assert episode.metrics["abstained"] == 1
    assert episode.env.trajectory_text() == "Enough.\n<FINISH>"


async def test_found_pages_are_not_read_pages(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [SEARCH, FINISH])
    assert episode.terms.values["page_recall"] == 0
    assert episode.metrics["pages_found"] == 4


@pytest.mark.parametrize(
    ("changes", "answers", "total"),
    [
        ({}, ("241",), 2.0),
        ({}, ("242",), 1.0),
        ({"reward": {"pages": 0}}, ("241",), 1.0),
        ({"reward": {"correctness": 0}}, ("242",), 1.0),
        ({"reward": {"page_term": "f1"}}, ("241",), 1 + 4 / 5),
    ],
)
async def test_rewards(make_mm_env, report_question, play, changes, answers, total):
    read = '<read>{"page_ids": [2, 4, 5], "query": "How many?"}</read>'
    episode = await play(make_mm_env(**changes), report_question(answers=answers), [read, FINISH])
    assert episode.terms.reward == pytest.approx(total)
    assert episode.metrics["reward/total"] == episode.terms.reward


@pytest.mark.parametrize(("empty", "totals"), [("one", (2, 1)), ("zero", (1, 0)), ("correctness", (2, 0))])
async def test_unanswerable_questions(make_mm_env, report_question, play, empty, totals):
    sample = report_question(answers=(), answerable=False, evidence_pages=(), answer_format="None")
    env = make_mm_env(reward={"empty_evidence": empty})
    right = await play(env, sample, [FINISH])
    assert right.terms.reward == totals[0]
    assert (right.metrics["unanswerable"], right.metrics["unanswerable_score"]) == (1, 1)
    assert (right.metrics["has_evidence"], "retrieval_recall" in right.metrics) == (0, False)
    wrong = await play(env, sample, [READ, FINISH])
    assert wrong.terms.reward == totals[1]
    assert wrong.metrics["unanswerable_score"] == 0


async def test_answer_formats(make_mm_env, report_question, play):
    town = report_question(
        question="In which town is the main office of Velmora?", answers=("Kantora",), answer_format="String"
    )
    assert (await play(make_mm_env(), town, [READ, FINISH])).terms.values["correctness"] == 1
    either = report_question(answers=("two hundred", "241"))
    assert (await play(make_mm_env(), either, [READ, FINISH])).terms.values["correctness"] == 1


async def test_surplus_actions_are_counted_and_not_executed(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [f"{SEARCH}{READ}{FINISH}"])
    assert not episode.results[0].done
    assert episode.metrics["surplus_actions"] == 2
    assert episode.metrics["pages_seen"] == 0


async def test_a_step_that_was_cut_off(make_mm_env, report_question, play):
    episode = await play(
        make_mm_env(), report_question(), [AssistantTurn(f"{SEARCH} and", StopCause.TRUNCATED), READ]
    )
    assert episode.results[0].info["reason"] == "truncated"
    assert episode.metrics["searches"] == 0


async def test_thoughts_are_not_shown_again(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [f"<think>secret</think>{READ}"])
    text = text_of(episode.results[0].observation)
    assert "secret" not in text
    assert "Reasoning: Now read." in text


async def test_a_long_history_is_shortened(make_mm_env, report_question, play):
    turns = [SEARCH, READ, SEARCH, SEARCH]
    full = await play(make_mm_env(max_steps=9), report_question(), turns)
    assert full.metrics["prompts_shortened"] == 0
    budget = {"prompt_tokens": 900, "shortened_note_chars": 40}
    short = await play(make_mm_env(max_steps=9, history=budget), report_question(), turns)
    text = text_of(short.results[-1].observation)
    assert short.metrics["prompts_shortened"] >= 1
    assert "Found: p.2" in text
    assert text.count("employs 241 people") == 1
    assert "(1) Search for" in text
    # a budget that nothing fits into: the shortest version is offered, and the rollout decides
    tiny = await play(make_mm_env(max_steps=9, history={"prompt_tokens": 64}), report_question(), turns)
    assert "Reasoning" in text_of(tiny.results[0].observation)


async def test_tokens_are_counted_by_the_service(make_mm_env, report_services, report_question, play):
    counted = replace(report_services, count_tokens=lambda text: 10 * len(text))
    episode = await play(make_mm_env(services=counted), report_question(), [SEARCH, SEARCH])
    assert episode.metrics["prompts_shortened"] == 1


async def test_conclude(make_mm_env, report_question, play):
    """An observation that did not fit does not take back what was read."""
    episode = await play(make_mm_env(), report_question(), [SEARCH, READ], drop_last=True)
    assert episode.terms.values == {"page_recall": 1, "correctness": 1, "total": 2}
    assert (episode.metrics["context_full"], episode.metrics["finished"]) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ()}, "'r1'"),
        ({"extra": {"window": [9, 12]}}, r"'r1'.*extra\.window"),
    ],
)
async def test_samples_that_cannot_be_played(make_mm_env, report_question, changes, message):
    with pytest.raises(UserError, match=message):
        await make_mm_env().reset(report_question(**changes))


async def test_the_system(report_services, report_question, tmp_path):
    mm_doc = SYSTEM
    config = mm_doc.parse_config({"max_steps": 6})
    assert (mm_doc.name, mm_doc.max_turns(config), mm_doc.max_images(config)) == ("mm_doc_r1", 6, 0)
    assert "mm_doc_r1_seeker" in mm_doc.load_prompt(config).source
    assert isinstance(mm_doc.make_env({}, report_services), MMDocEnv)
    assert mm_doc.make_grammar(config).parse("<FINISH>").action
    path = tmp_path / "mine.yaml"
    path.write_text(
        "system: Be brief.\nuser: 'Find {{ question }} {{ history }}'\nfeedback: again\nno_hit: none"
    )
    env = mm_doc.make_env({}, report_services, prompt=path)
    prompt = await env.reset(report_question())
    assert [message.role for message in prompt.messages] == [Role.SYSTEM, Role.USER]
    for turn, part in (("nothing", "again"), ('<search>["unheardof"]</search>', "none")):
        result = await env.step(AssistantTurn(turn))
        assert part in result.observation.messages[1].parts[0].text


async def test_the_texts_of_its_steps_make_up_that_of_the_episode(make_mm_env, report_question, play):
    episode = await play(make_mm_env(), report_question(), [SEARCH, "nothing", READ, FINISH])
    texts = [result.info["text"] for result in episode.results]
    assert "\n".join(texts) == episode.env.trajectory_text()
    assert texts[0].startswith("Where is it?\n<search>")
