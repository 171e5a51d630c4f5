"""The base environment of systems, tested with minimal systems."""

import time
from types import SimpleNamespace

import pytest

from docagent_rl.actions.base import Answer
from docagent_rl.actions.grammar import TagGrammar, read_answer, read_search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, EnvState, Role, TextPart
from docagent_rl.envs.outcome import NO_ANSWER, Outcome
from docagent_rl.envs.tool_env import ToolEnv, new_hits
from docagent_rl.envs.turn_log import RefusedError
from docagent_rl.retrieval import Hit

PROMPT = "user: |\n  {{ hint }} {{ question }}\nfeedback: |\n  No: {{ reason }}.\n"


class Bare(ToolEnv[SimpleNamespace, EnvState]):
    """An environment with nothing but a prompt and a grammar."""

    title = "Bare"
    spec = PromptSpec(
        required=frozenset({"user", "feedback"}),
        optional=frozenset({"system"}),
        variables=frozenset({"question", "reason", "hint"}),
    )

    @staticmethod
    def make_grammar(config):
        return TagGrammar({"search": read_search, "answer": read_answer})

    def variables(self, state):
        return {"hint": "Well,"}


class Small(Bare):
    """An environment that searches, refuses one-letter queries and scores every answer as 0.5."""

    async def act(self, state, logged):
        if len(logged.action.query) < 2:
            raise RefusedError("the query is too short")
        return [TextPart(f"found {logged.action.query}")]

    async def score(self, state, logged, action):
        return Outcome.of(0.5)

    def final_terms(self, end, outcome):
        return self.state.finish(end, {"outcome": outcome.term, "total": outcome.term / 2})


@pytest.fixture
def make(tmp_path, services):
    def make(kind=Small, text=PROMPT, turns=3):
        path = tmp_path / f"prompt{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(text, encoding="utf-8")
        return kind(SimpleNamespace(prompt=str(path), assistant_turns=turns), services)

    return make


def said(observation) -> list[tuple[Role, str]]:
    return [(message.role, part.text) for message in observation.messages for part in message.parts]


async def test_the_prompt_has_the_parts_that_its_file_has(make, make_sample):
    user = (Role.USER, "Well, What is the answer?")
    assert said(await make().reset(make_sample())) == [user]
    both = await make(text=f"system: Be {{{{ hint }}}} brief\n{PROMPT}").reset(make_sample())
    assert said(both) == [(Role.SYSTEM, "Be Well, brief"), user]


async def test_a_turn_shows_what_it_leads_to_or_what_is_wrong_with_it(make, make_sample, play):
    turns = ["<search>ports</search>", "no action", "<search>x</search>", "<answer>blue</answer>"]
    state = await play(make(turns=4), make_sample(), turns)
    shown = [said(result.observation) for result in state.results[:3]]
    assert shown == [
        [(Role.USER, "found ports")],
        [(Role.USER, "No: the turn holds no action.")],
        [(Role.USER, "No: the query is too short.")],
    ]
    infos = [result.record.to_dict() for result in state.results]
    assert [info["turn"] for info in infos] == [1, 2, 3, 4]
    assert [info["valid"] for info in infos] == [True, False, False, True]
    assert [info["effect"] for info in infos] == [
        {},
        {"kind": "feedback"},
        {"kind": "feedback"},
        {},
    ]
    assert (state.results[-1].end, state.terms.reward) == (EndReason.ANSWERED, 0.25)
    assert (state.metrics["turns"], state.metrics["invalid_actions"]) == (4, 2)


async def test_the_last_turn_is_read_for_an_answer_alone(make, make_sample, play):
    state = await play(make(turns=2), make_sample(), ["<search>a b</search>"] * 3)
    assert [result.end for result in state.results] == [None, EndReason.TURN_LIMIT]
    assert (state.terms.reward, state.metrics["turns"]) == (0.0, 2)
    assert state.results[-1].record.executed is False
    answered = await play(make(turns=1), make_sample(), ["<answer>blue</answer>"])
    assert answered.results[-1].end is EndReason.ANSWERED


async def test_a_trajectory_may_end_before_its_first_turn_or_with_what_was_never_shown(
    make, make_sample, play
):
    dropped = await play(make(), make_sample(), ["<search>ports</search>"], drop_last=True)
    assert dropped.env.state.log.turns[-1].dropped
    none = await play(make(), make_sample(), [], drop_last=True)
    for state in (dropped, none):
        assert (state.env.state.end, state.terms.reward) == (EndReason.CONTEXT_FULL, 0.0)
        with pytest.raises(RuntimeError, match="context_full"):
            await state.env.step(AssistantTurn("<answer>blue</answer>"))


async def test_a_system_writes_what_the_environment_leaves_open(make, make_sample):
    env = make(Bare)
    await env.reset(make_sample())
    for turn in ("<search>ports</search>", "<answer>blue</answer>"):
        with pytest.raises(NotImplementedError):
            await env.step(AssistantTurn(turn))
    with pytest.raises(NotImplementedError):
        env.final_terms(EndReason.ANSWERED, NO_ANSWER)
    with pytest.raises(NotImplementedError):
        await env.score(env.state, env.state.log.turns[-1], Answer((0, 1), (0, 1), "blue"))


class Asking(Small):
    """An environment that calls the retriever and the judge."""

    async def act(self, state, logged):
        hits = await self.search(logged, logged.action.query, doc_id=None, top_k=2)
        return [TextPart(str(hit.ref)) for hit in hits]

    async def score(self, state, logged, action):
        return await self.judge(logged, state.sample.answers, action.text)


async def test_services_are_asked_and_their_seconds_noted(make, make_sample, play, judge):
    began = time.perf_counter()
    asked = await play(
        make(Asking), make_sample(), ["<search>pagek3</search>", "<answer>blue</answer>"]
    )
    elapsed = time.perf_counter() - began
    assert said(asked.results[0].observation) == [(Role.USER, "K#3")]
    search, answer = (result.record.seconds for result in asked.results)
    assert (search.keys(), answer.keys()) == ({"search"}, {"judge"})
    assert 0 < search["search"] < elapsed
    assert 0 < answer["judge"] < elapsed
    assert asked.results[1].record.effect.to_dict() == {"kind": "answer", "judged": True}
    assert (asked.terms.reward, len(judge.asked)) == (0.5, 1)
    blank = await play(make(Asking), make_sample(), ["<answer> </answer>"])
    assert blank.results[0].record.effect.to_dict() == {"kind": "answer", "judged": False}
    assert (blank.terms.reward, len(judge.asked)) == (0.0, 1)


def test_new_hits_keep_their_ranks():
    first, second, third = (PageRef("K", number) for number in (1, 2, 3))
    hits = [Hit(ref, score) for score, ref in enumerate((first, second, second, third))]
    assert new_hits(hits, [first]) == [(2, hits[1]), (4, hits[3])]
    assert new_hits(hits, [first, second, third]) == []
