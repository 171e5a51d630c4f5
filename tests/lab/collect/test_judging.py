"""Judges are asked about some trajectories, and their verdict changes what is kept."""

import pytest

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import load_prompt
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.collect.collection import with_verdicts
from docagent_rl.lab.collect.filters import AnswerFilter, Format
from docagent_rl.rewards.judge_client import JUDGE_PROMPT, RemoteJudge
from tests.chat_server import ChatServer, completion, serving
from tests.lab.collect.cases import case

STEPS = [Format(), AnswerFilter(judged=True)]


class Asked:
    """A judge that finds everything right that begins with a capital letter; it records its
    requests.
    """

    def __init__(self):
        self.answers = []

    async def judge(self, question, references, prediction):
        self.answers.append((question, references, prediction))
        return float(prediction[:1].isupper())


async def test_only_doubtful_answers_in_free_text_are_judged():
    clerk = Asked()
    cases = [
        case("right"),
        case("other words", prediction="The colour of the sky", text="Which?"),
        case("wrong", prediction="red"),
        case("spoilt", prediction="The colour of the sky", sound=False),
        case("number", prediction="Forty-two or so", references=("42",)),
        case("none", prediction=None),
        case("refusal", prediction="Blue", references=(), refusal=True),
    ]
    found = await with_verdicts(cases, STEPS, clerk)
    assert sorted(clerk.answers) == [
        ("", ("blue",), "red"),
        ("Which?", ("blue",), "The colour of the sky"),
    ]
    assert AnswerFilter(judged=True).keep(found) == [True, True, *[False] * 5]
    assert AnswerFilter().keep(found) == [True, *[False] * 6]
    # nobody is asked where no filter wants it
    assert await with_verdicts(cases, [Format(), AnswerFilter()], clerk) == cases
    assert len(clerk.answers) == 2


def judge_at(server) -> RemoteJudge:
    endpoint = Endpoint(base_url=server.url, model="m", backoff_s=0, attempts=1)
    return RemoteJudge(RemoteModel(endpoint, "judge"), load_prompt("judge", JUDGE_PROMPT))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (400, "400"),
        (completion("<judge>True", "length"), "max_tokens"),
        ("I cannot tell.", "verdict"),
    ],
)
async def test_one_trajectory_without_a_verdict_leaves_the_others_theirs(reply, why):
    server = ChatServer(
        compute=lambda asked: reply if "Teal" in str(asked) else "<judge>True</judge>"
    )
    cases = [case("one", prediction="Teal"), case("two", prediction="Azure")]
    async with serving(server):
        found = await with_verdicts(cases, STEPS, judge_at(server))
    assert [each.verdict for each in found] == [None, 1.0]
    assert why in found[0].unjudged
    assert found[1].unjudged == ""
    assert AnswerFilter(judged=True).keep(found) == [False, True]


async def test_a_judge_that_refuses_everything_ends_the_filtering():
    async with serving(ChatServer([400])) as server:
        with pytest.raises(InfrastructureError, match="400"):
            await with_verdicts(
                [case(str(n), prediction=f"Teal {n}") for n in range(20)], STEPS, judge_at(server)
            )
