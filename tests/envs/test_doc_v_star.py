from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, ingest
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart, ImageRef, ImageSheet, Role, TextPart
from docagent_rl.envs.doc_v_star import DocVStarEnv, system
from docagent_rl.envs.doc_v_star_config import DocVStarConfig
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval import BM25Retriever


def turn(act, relevant=None, *, summary="found", analysis="a"):
    """A whole turn: the first one when nothing is said about relevant pages."""
    second = "<plan>p</plan>" if relevant is None else f"<relevant_pages>{relevant}</relevant_pages>"
    blocks = f"<analysis>{analysis}</analysis>{second}<summary>{summary}</summary>"
    return f"<think>{blocks}</think><action>{act}</action>"


def retrieve(query, relevant=None, **more):
    return turn(f"<retrieval_page>{query}</retrieval_page>", relevant, **more)


def fetch(pages, relevant=None, **more):
    return turn(f"<fetch_page>{pages}</fetch_page>", relevant, **more)


def answer(text="blue", relevant="", **more):
    return turn(f"<answer>{text}</answer>", relevant, **more)


def texts(observation):
    return "".join(part.text for m in observation.messages for part in m.parts if isinstance(part, TextPart))


def shown(result):
    return [image.page.page for image in result.observation.images]


@pytest.fixture
def env_of(services):
    def make(*, validate=False, services=services, **overrides):
        return DocVStarEnv(DocVStarConfig(**overrides), services, validate=validate)

    return make


@pytest.fixture
def sample(record):
    """A question on document M, whose 8 pages hold the words pagem1 to pagem8."""

    def make(**changes):
        return record(**{"doc_id": "M", "evidence_pages": (3, 4), "extra": {}, **changes})

    return make


def test_the_prompt(env_of, sample):
    prompt = env_of().reset(sample())
    rules, user = prompt.messages
    assert (rules.role, user.role) == (Role.SYSTEM, Role.USER)
    (sheet,) = prompt.images
    assert isinstance(sheet, ImageSheet)
    assert sheet.size == (768, 840)
    assert [ref.page for ref in sheet.pages] == list(range(1, 9))
    assert [type(part) for part in user.parts] == [TextPart, ImagePart]
    text = user.parts[0].text
    assert "What is the answer?" in text
    assert "8 pages, numbers 1 to 8" in text
    assert "8 turns" in text
    assert text.endswith("Overview 1 of 1, pages 1 to 8:\n")


def test_without_thumbnails(env_of, sample):
    prompt = env_of(overview={"enabled": False}).reset(sample())
    assert prompt.images == ()
    assert "thumbnail" not in texts(prompt)
    assert "overview" not in texts(prompt).casefold()


async def test_pages_come_by_rank_with_their_numbers(env_of, sample, play):
    env = env_of(retrieval={"pages": 3})
    episode = await play(env, sample(), [retrieve("everypage pagem7 pagem5")])
    result = episode.results[0]
    numbers = shown(result)
    assert len(numbers) == 3
    assert set(numbers[:2]) == {5, 7}
    parts = result.observation.messages[0].parts
    labels = [part.text.strip() for part in parts[:6:2]]
    assert labels == [f"Page {number}:" for number in numbers]
    assert all(isinstance(part.image, ImageRef) for part in parts[1:6:2])
    assert parts[1].image.size == (1024, 724)
    assert [page["rank"] for page in result.info["effect"]["pages"]] == [1, 2, 3]
    assert result.info["effect"]["pages"][0]["score"] > 0
    assert episode.rewards == [0.0]


async def test_only_unvisited_pages_are_retrieved(env_of, sample, play):
    turns = [retrieve("everypage"), *[retrieve("everypage", "") for _ in range(3)]]
    episode = await play(env_of(retrieval={"pages": 3}), sample(), turns)
    seen = [shown(result) for result in episode.results]
    assert [len(pages) for pages in seen] == [3, 3, 2, 0]
    assert sorted(itertools.chain(*seen)) == list(range(1, 9))
    assert "no page left that you have not seen" in texts(episode.results[3].observation)
    assert episode.results[3].info["effect"] == {"kind": "no_new_page", "hits": 0}
    assert episode.metrics["pages_seen"] == 8
    assert episode.metrics["format_ok"] == 1


async def test_k_adapts_to_the_document(env_of, sample, play):
    episode = await play(env_of(), sample(), [retrieve("everypage")])
    assert len(shown(episode.results[0])) == 1


async def test_a_query_without_matches(env_of, sample, play):
    episode = await play(env_of(), sample(), [retrieve("unheardof")])
    assert shown(episode.results[0]) == []
    assert "matches this query" in texts(episode.results[0].observation)
    assert episode.metrics["retrieval/calls"] == 1
    assert episode.metrics["format_ok"] == 1


async def test_long_queries_are_cut(env_of, sample, play):
    queries = ["x " * 300 + "pagem7", "pagem7 " + "x " * 300]
    first, second = [await play(env_of(), sample(), [retrieve(query)]) for query in queries]
    assert shown(first.results[0]) == []
    assert shown(second.results[0]) == [7]
    assert second.results[0].info["effect"]["cut_query"] is True


async def test_pages_by_number_in_the_order_asked_for(env_of, sample, play):
    turns = [fetch("[7, 3, 7]"), fetch("3, 5, 7", "[3]")]
    episode = await play(env_of(), sample(), turns)
    assert shown(episode.results[0]) == [7, 3]
    assert shown(episode.results[1]) == [5]
    text = texts(episode.results[1].observation)
    assert text.index("Page 3 was already shown to you after turn 1") < text.index("Page 5:")
    assert text.index("Page 5:") < text.index("Page 7 was already shown")
    effect = episode.results[1].info["effect"]
    assert (effect["visited"], effect["missing"], effect["surplus"]) == ([3, 7], [], [])
    metrics = episode.metrics
    assert metrics["format_ok"] == 1
    assert (metrics["fetch/calls"], metrics["fetch/pages"], metrics["fetch/evidence_pages"]) == (2, 3, 1)
    assert metrics["retrieval/used"] == 0


async def test_pages_that_do_not_exist(env_of, sample, play):
    episode = await play(
        env_of(), sample(), [fetch("[99, 3, 0, -1]"), fetch("[4, x]", ""), fetch("[77]", "")]
    )
    first, second, third = episode.results
    assert (shown(first), shown(second), shown(third)) == ([3], [4], [])
    assert "no page 99, 0, -1." in texts(first.observation)
    assert "not a page number was ignored" in texts(second.observation)
    assert [result.info["faults"] for result in episode.results] == [["fetch_pages"]] * 3
    assert all(result.info["valid"] for result in episode.results)
    assert episode.metrics["fault/fetch_pages"] == 3
    assert episode.metrics["format_ok"] == 0


async def test_notes_name_the_first_few_pages_only(env_of, sample, play):
    wanted = ", ".join(map(str, range(100, 200)))
    episode = await play(env_of(), sample(), [fetch(wanted)])
    assert "108, 109 and 90 more." in texts(episode.results[0].observation)


async def test_surplus_pages_are_no_fault(env_of, sample, play):
    episode = await play(env_of(), sample(), [fetch("[1 2 99 3 4 5 6]"), fetch("[1 2 3 4 5 6]", "")])
    assert shown(episode.results[0]) == [1, 2, 3, 4]
    assert "not shown: 5, 6." in texts(episode.results[0].observation)
    assert episode.results[1].info["faults"] == []
    assert shown(episode.results[1]) == []


async def test_working_memory(env_of, sample, play):
    turns = [
        retrieve("pagem3", summary="  net margin on page 3 "),
        "nothing",
        retrieve("pagem4", "[3]", summary="x" * 2000),
        retrieve("pagem5", ""),
    ]
    episode = await play(env_of(), sample(), turns)
    first, second, third, fourth = (texts(result.observation) for result in episode.results)
    assert "Turn 1: net margin on page 3\n" in first
    assert "Turn 1: net margin on page 3\n" in second
    assert "Turn 2:" not in second
    assert "Turn 3: " + "x" * 1499 + "\N{HORIZONTAL ELLIPSIS}" in third
    assert fourth.index("Turn 1:") < fourth.index("Turn 3:") < fourth.index("Turn 4: found")
    assert "This is turn 2; 6 turns are left after it." in first
    forgetful = await play(env_of(memory={"enabled": False}), sample(), turns)
    assert "net margin" not in "".join(texts(result.observation) for result in forgetful.results)


async def test_an_invalid_turn_costs_a_turn_and_the_format(env_of, sample, play):
    episode = await play(env_of(), sample(), [retrieve("pagem3"), "nothing", answer(relevant="[3]")])
    text = texts(episode.results[1].observation)
    assert "the turn holds no action" in text
    assert "Turn 1: found" in text
    assert episode.results[1].observation.images == ()
    assert episode.terms.values["format"] == 0
    assert episode.terms.values["answer"] == 1
    assert episode.metrics["invalid_actions"] == 1
    assert episode.metrics["fault/action"] == 1


async def test_a_faulty_thought_does_not_stop_the_action(env_of, sample, play):
    episode = await play(
        env_of(), sample(), ["<action><fetch_page>[3, 4]</fetch_page></action>", answer(relevant="[3, 4]")]
    )
    assert shown(episode.results[0]) == [3, 4]
    assert episode.results[0].info["faults"] == ["frame", "blocks"]
    assert episode.terms.values == {"answer": 1, "evidence": 1, "format": 0, "total": pytest.approx(0.9)}


async def test_relevant_pages_are_united_over_turns(env_of, sample, play):
    turns = [fetch("[3, 5]"), fetch("[4]", "[3, 5]"), answer(relevant="4 3")]
    episode = await play(env_of(), sample(), turns)
    assert episode.terms.values["evidence"] == pytest.approx(3 * 2 / (2 * 2 + 3))
    assert episode.terms.values["total"] == pytest.approx(0.6 + 0.3 * 6 / 7 + 0.1)
    metrics = episode.metrics
    assert (metrics["pages_listed"], metrics["page_recall"]) == (3, 1)
    assert metrics["page_precision"] == pytest.approx(2 / 3)
    assert metrics["page_f1"] == pytest.approx(0.8)


async def test_relevant_pages_that_do_not_exist(env_of, sample, play):
    episode = await play(env_of(), sample(), [fetch("[3, 4]"), answer(relevant="[3, 4, 9]")])
    assert episode.results[-1].info["faults"] == ["relevant_pages"]
    assert episode.results[-1].info["relevant_pages"] == [3, 4]
    assert episode.terms.values["evidence"] == 1
    assert episode.terms.values["format"] == 0


async def test_pages_listed_off_their_thumbnails(env_of, sample, play):
    turns = [fetch("[3]"), answer(relevant="[3, 4]")]
    visited = await play(env_of(), sample(), turns)
    listed = await play(env_of(reward={"hits": "listed"}), sample(), turns)
    assert visited.terms.values["evidence"] == pytest.approx(0.5)
    assert listed.terms.values["evidence"] == 1
    plain = await play(env_of(reward={"beta2": 1}), sample(), turns)
    assert plain.terms.values["evidence"] == pytest.approx(2 * 1 / (2 + 2))


async def test_an_answer_at_once(env_of, sample, play):
    episode = await play(env_of(), sample(), [turn("<answer>Blue</answer>")])
    assert episode.results[-1].end is EndReason.ANSWERED
    assert episode.terms.values == {"answer": 1, "evidence": 0, "format": 1, "total": pytest.approx(0.7)}
    assert episode.metrics["finished"] == 1


async def test_a_blank_answer(env_of, sample, play):
    episode = await play(env_of(), sample(), [turn("<answer> </answer>")])
    assert episode.results[-1].end is EndReason.ANSWERED
    assert episode.terms.values == {"answer": 0, "evidence": 0, "format": 0, "total": 0}
    assert episode.metrics["fault/answer"] == episode.metrics["no_answer"] == 1


async def test_the_last_turn_must_answer(env_of, sample, play):
    turns = [fetch("[1]"), *[fetch(f"[{page}]", "") for page in range(2, 12)]]
    episode = await play(env_of(), sample(evidence_pages=(5, 6)), turns)
    assert len(episode.results) == 8
    last = episode.results[-1]
    assert last.end is EndReason.TURN_LIMIT
    assert (last.info["executed"], last.info["effect"]) == (False, {"kind": "not_executed"})
    assert "turn 7; 1 turn is left" in texts(episode.results[5].observation)
    assert "turn 8 and your last: it must be an answer" in texts(episode.results[6].observation)
    assert episode.terms.values == {"answer": 0, "evidence": 0, "format": 0, "total": 0}
    assert episode.metrics["no_answer"] == 1
    assert episode.metrics["pages_seen"] == 7


async def test_no_answer_keeps_its_evidence(env_of, sample, play):
    env = env_of(max_turns=2)
    episode = await play(env, sample(evidence_pages=(5, 6, 8)), [fetch("[3, 5]"), fetch("[1]", "[3, 5]")])
    assert episode.terms.values["evidence"] == pytest.approx(0.375)
    assert episode.terms.reward == pytest.approx(0.1125)


async def test_without_a_notice(env_of, sample, play):
    episode = await play(env_of(max_turns=2, final_turn_notice=False), sample(), [fetch("[1]")])
    assert "turn 2; 0 turns are left after it" in texts(episode.results[0].observation)
    assert "your last: it must" in texts(env_of(max_turns=1).reset(sample()))


async def test_a_page_that_was_dropped_was_never_shown(env_of, sample, play):
    turns = [fetch("[3]"), fetch("[4, 3]", "[3, 4]")]
    episode = await play(env_of(), sample(), turns, drop_last=True)
    assert episode.terms.values["evidence"] == pytest.approx(0.5)
    metrics = episode.metrics
    assert (metrics["context_full"], metrics["finished"], metrics["pages_seen"]) == (1, 0, 1)
    assert metrics["image_tokens"] == 962
    assert metrics["retrieval_recall"] == 0.5
    nothing = await play(env_of(), sample(), [], drop_last=True)
    assert nothing.terms.reward == 0


TIGHT = {"reserve_tokens": 500}


async def test_pages_that_leave_too_little_are_withheld(env_of, sample, play):
    """Each page is 962 tokens; the overview 810, the rest of the prompt about 700."""
    env = env_of(context_tokens=4700, **TIGHT)
    episode = await play(env, sample(), [fetch("[3, 4, 5]"), answer(relevant="[3, 4]")])
    first = episode.results[0]
    assert shown(first) == [3, 4]
    assert "not enough room left to show page 5." in texts(first.observation)
    assert "6 turns are left" in texts(first.observation)
    assert first.info["effect"]["withheld"] == [5]
    assert first.info["faults"] == []
    assert episode.terms.values["total"] == pytest.approx(1)
    metrics = episode.metrics
    assert (metrics["budget_cut"], metrics["pages_withheld"], metrics["pages_seen"]) == (1, 1, 2)


async def test_when_no_page_fits_the_next_turn_is_the_last(env_of, sample, play):
    env = env_of(context_tokens=3700, **TIGHT)
    turns = [fetch("[3]"), retrieve("pagem4", ""), retrieve("pagem4", "")]
    episode = await play(env, sample(), turns)
    assert shown(episode.results[0]) == [3]
    text = texts(episode.results[1].observation)
    assert "not enough room left to show page 4." in text
    assert "turn 3 and your last: it must be an answer" in text
    assert episode.results[-1].end is EndReason.CONTEXT_FULL
    assert len(episode.results) == 3
    assert episode.metrics["format_ok"] == 1
    answered = await play(
        env_of(context_tokens=3700, **TIGHT), sample(), [*turns[:2], answer(relevant="[3]")]
    )
    assert answered.results[-1].end is EndReason.ANSWERED
    assert answered.terms.values["format"] == 1


async def test_without_a_budget_nothing_is_withheld(env_of, sample, play):
    episode = await play(env_of(), sample(), [fetch("[1 2 3 4]"), fetch("[5 6 7 8]", "")])
    assert episode.metrics["budget_cut"] == 0
    assert episode.metrics["pages_seen"] == 8


def test_an_overview_that_fills_the_context(env_of, sample):
    with pytest.raises(UserError, match=r"'q1': the overview of 'M', 8 pages, leaves less"):
        env_of(context_tokens=1500, **TIGHT).reset(sample())


async def test_unanswerable_questions(env_of, sample, play):
    nobody = sample(answers=(), answerable=False, evidence_pages=())
    abstains = turn("<answer>Not answerable</answer>")
    episode = await play(env_of(), nobody, [abstains])
    assert episode.terms.values == {"answer": 1, "evidence": 1, "format": 1, "total": pytest.approx(1)}
    listing = await play(env_of(), nobody, [fetch("[1]"), answer("Not answerable", "[1]")])
    assert listing.terms.reward == pytest.approx(0.7)
    wrong = await play(env_of(), sample(), [abstains])
    assert wrong.terms.values["answer"] == 0


async def test_lists(env_of, sample, play):
    for answer_format in ("List", "list/extractive"):
        gold = sample(answers=("blue", "red"), answer_format=answer_format)
        episode = await play(env_of(), gold, [turn("<answer>red; blue</answer>")])
        assert episode.terms.values["answer"] == 1
    either = await play(env_of(), sample(answers=("blue", "red")), [turn("<answer>red</answer>")])
    assert either.terms.values["answer"] == 1


async def test_unknown_evidence(env_of, sample, play):
    unknown = sample(evidence_pages=())
    with pytest.raises(
        UserError, match=r"'q1' is answerable and has no evidence pages.*allow_unknown_evidence"
    ):
        env_of().reset(unknown)
    for settings in ({"validate": True}, {"allow_unknown_evidence": True}):
        episode = await play(env_of(**settings), unknown, [turn("<answer>blue</answer>")])
        assert episode.terms.values == {"answer": 1, "evidence": 0, "format": 1, "total": pytest.approx(0.7)}
        metrics = episode.metrics
        assert metrics["evidence_known"] == metrics["page_f1"] == metrics["page_precision"] == 0


async def test_a_window_of_a_document(env_of, sample, play):
    window = sample(evidence_pages=(5,), extra={"window": [4, 6]})
    env = env_of(retrieval={"pages": 8})
    episode = await play(env, window, [retrieve("everypage"), fetch("[3]", ""), answer(relevant="[5]")])
    assert "3 pages, numbers 4 to 6" in texts(episode.prompt)
    assert [label.text for label in episode.prompt.images[0].labels] == ["4", "5", "6"]
    assert sorted(shown(episode.results[0])) == [4, 5, 6]
    assert episode.results[1].info["faults"] == ["fetch_pages"]
    assert episode.terms.values["evidence"] == 1
    assert len(env_of(use_window=False).reset(window).images[0].pages) == 8


@pytest.mark.parametrize("window", [[4], [6, 4], [0, 3], [4, 9], "4-6", [4.0, 6.0], [True, 3]])
def test_windows_that_make_no_sense(env_of, sample, window):
    with pytest.raises(UserError, match=r"'q1': extra.window .* pages 1 to 8"):
        env_of().reset(sample(extra={"window": window}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": "Z"}, "'q1': .* no document 'Z'"),
        ({"evidence_pages": (9,)}, "'q1': gold page 9 of 'M' does not exist"),
        ({"extra": {"page_ids": ["M#3", "K#1"]}}, "'q1' has evidence in 'K' too"),
        ({"answers": (), "answerable": None}, "'q1' has no reference answer"),
    ],
)
def test_questions_that_cannot_be_played(env_of, sample, changes, message):
    with pytest.raises(UserError, match=message):
        env_of().reset(sample(**changes))


async def test_ablations_of_the_grammar(env_of, sample, play):
    blind = env_of(retrieval={"enabled": False})
    episode = await play(blind, sample(), [retrieve("pagem3"), fetch("[3]", "")])
    assert episode.results[0].info["valid"] is False
    assert shown(episode.results[1]) == [3]
    assert "retrieval" not in texts(episode.prompt) + texts(episode.results[0].observation)
    brief = env_of(thought={"analysis": False})
    thought = "<think><relevant_pages></relevant_pages><summary>s</summary></think>"
    episode = await play(brief, sample(), [fetch("[3]"), f"{thought}<action><answer>blue</answer></action>"])
    assert episode.terms.values["format"] == 1


class Broken:
    def search(self, *_, **__):
        raise ConnectionError("retriever down")


async def test_a_failing_retriever_is_no_reward(env_of, sample, store, judge):
    quick = RetrieverService(Broken(), attempts=2, backoff_s=0)
    env = env_of(services=EnvServices(store, quick, judge))
    env.reset(sample())
    with pytest.raises(InfrastructureError, match="retriever down"):
        await env.step(AssistantTurn(retrieve("pagem3")))
    assert env.metrics()["reward/total"] == 0


class Stubborn:
    """A retriever that does not care what it is told."""

    def __init__(self, retriever):
        self.retriever = retriever

    def search(self, queries, **_):
        return [2 * hits for hits in self.retriever.search(queries, top_k=99)]


async def test_hits_of_other_documents_and_repeated_hits_are_left_out(
    env_of, sample, store, retriever, judge, play
):
    env = env_of(
        services=EnvServices(store, RetrieverService(Stubborn(retriever)), judge), retrieval={"pages": 5}
    )
    episode = await play(env, sample(), [retrieve("everypage"), retrieve("everypage", "")])
    seen = [shown(result) for result in episode.results]
    assert [len(pages) for pages in seen] == [5, 3]
    assert sorted(itertools.chain(*seen)) == list(range(1, 9))
    images = [image for result in episode.results for image in result.observation.images]
    assert {image.page.doc_id for image in images} == {"M"}


async def test_misuse(env_of, sample, play):
    env = env_of()
    with pytest.raises(RuntimeError, match="reset"):
        await env.step(AssistantTurn("a"))
    await play(env, sample(), [answer()])
    with pytest.raises(RuntimeError, match="answered"):
        await env.step(AssistantTurn("a"))
    with pytest.raises(RuntimeError, match="answered"):
        await env.conclude(EndReason.CONTEXT_FULL)
    env.reset(sample())
    assert env.metrics()["turns"] == env.metrics()["pages_seen"] == 0


def test_as_a_system(services, sample):
    made = system()
    config = made.parse_config({"max_turns": 3})
    assert (made.name, made.max_turns(config), made.max_images(config)) == ("doc_v_star", 3, 8)
    assert made.make_grammar(config).tags == ("retrieval_page", "fetch_page", "answer")
    assert made.make_env(config, services).reset(sample()).images
    with pytest.raises(UserError, match=r"docagent\.env\.rounds"):
        made.parse_config({"rounds": 3})


def _write(path: Path, pages: int) -> None:
    canvas = Canvas(str(path), pagesize=(200, 280), invariant=True)
    for number in range(1, pages + 1):
        canvas.drawString(20, 200, f"word{number}")
        canvas.showPage()
    canvas.save()


async def test_a_long_document(tmp_path, judge, record, play):
    """83 pages: the worked example of the specification, on real pages."""
    (tmp_path / "pdf").mkdir()
    _write(tmp_path / "pdf" / "L.pdf", 83)
    ingest(tmp_path / "pdf", tmp_path / "store", workers=1)
    store = DocumentStore(tmp_path / "store")
    services = EnvServices(store, RetrieverService(BM25Retriever.build(store)), judge)
    env = DocVStarEnv(DocVStarConfig(), services)
    long = record(doc_id="L", evidence_pages=(61,), extra={})
    episode = await play(env, long, [retrieve("word61 word2 word3 word4 word5"), answer(relevant="[61]")])
    assert [image.size for image in episode.prompt.images] == [(1536, 1680), (1536, 1680), (768, 1120)]
    assert "Overview 3 of 3, pages 73 to 83:" in texts(episode.prompt)
    assert len(shown(episode.results[0])) == 4
    second = episode.prompt.images[1]
    (label,) = [label for label in second.labels if label.text == "61"]
    assert label.box[:2] == (0, 1120)
