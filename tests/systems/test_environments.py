"""What the environments of all systems have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.envs.base import AssistantTurn, EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.systems import get_system
from tests.systems.alden import play as alden
from tests.systems.doc_v_star import play as doc_v_star

# settings, a search, the turn that ends the trajectory
PLAYED = {
    "alden": ({}, alden.search("pagek3"), alden.answer("blue")),
    "doc_v_star": ({}, doc_v_star.retrieve("pagek3"), doc_v_star.answer()),
    "mm_doc_r1": ({"search": {"engine": "retriever"}}, '<search>["pagek3"]</search>', "<FINISH>"),
    "unidoc_rl": ({}, "<search>pagek3</search>", "<answer>blue</answer>"),
    "vrag_rl": ({}, "<search>pagek3</search>", "<answer>blue</answer>"),
}


class Broken:
    async def judge(self, *_):
        raise InfrastructureError("judge_7")

    def search(self, *_, **__):
        raise ConnectionError("retriever_7")


@pytest.fixture(params=PLAYED)
def name(request):
    return request.param


@pytest.fixture
def make(name, services):
    def make(**changes):
        return get_system(name).make_env(PLAYED[name][0], replace(services, **changes))

    return make


@pytest.fixture
def sample(make_sample):
    return make_sample(extra={}, evidence_pages=(3,))


async def test_misuse(name, make, sample, play):
    env = make()
    with pytest.raises(RuntimeError, match="reset"):
        await env.step(AssistantTurn("a"))
    state = await play(env, sample, [PLAYED[name][2]])
    end = state.results[-1].end
    with pytest.raises(RuntimeError, match=end.value):
        await env.step(AssistantTurn("a"))
    with pytest.raises(RuntimeError, match=end.value):
        await env.conclude(EndReason.CONTEXT_FULL)
    # a reset forgets everything
    await env.reset(sample)
    assert env.metrics()["turns"] == env.metrics()["pages_seen"] == 0


async def test_a_failing_retriever_is_no_reward(name, make, sample):
    env = make(retriever=RetrieverService(Broken(), attempts=2, backoff_s=0))
    await env.reset(sample)
    with pytest.raises(InfrastructureError, match="retriever_7"):
        await env.step(AssistantTurn(PLAYED[name][1]))
    assert env.metrics()["reward/total"] == 0


@pytest.mark.parametrize("name", ["unidoc_rl", "vrag_rl"], indirect=True)
async def test_a_failing_judge_is_no_reward(name, make, sample):
    env = make(judge=Broken())
    await env.reset(sample)
    with pytest.raises(InfrastructureError, match="judge_7"):
        await env.step(AssistantTurn(PLAYED[name][2]))
    assert env.metrics()["reward/total"] == 0


async def test_a_prompt_that_fills_the_context(make, sample, play):
    state = await play(make(), sample, [], drop_last=True)
    assert (state.terms.reward, state.metrics["turns"]) == (0, 0)


async def test_an_unknown_document(make, make_sample):
    with pytest.raises(UserError, match=r"'q1'.*'Z'"):
        await make().reset(make_sample(doc_id="Z", extra={}, evidence_pages=(3,)))


@pytest.mark.parametrize("name", ["alden", "unidoc_rl", "vrag_rl"], indirect=True)
def test_questions_without_gold_are_refused_in_training_alone(name, services, make_sample):
    """Benchmarks that name no evidence (UDA, hidden test sets) are played in validation and evaluation."""
    question = make_sample(extra={}, evidence_pages=())
    trained, validated = (get_system(name).make_env({}, services, validate=v) for v in (False, True))
    with pytest.raises(UserError, match="'q1'"):
        trained.opening(question)
    assert validated.opening(question).messages
