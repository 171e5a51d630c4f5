import asyncio
import json
from types import SimpleNamespace

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.chat_reply import IN_A_ROW
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import BudgetError, Meter
from docagent_rl.endpoints.remote_model import open_model
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig, KindConfig, PageView
from docagent_rl.lab.generate.draft import OUTAGES, DropStage
from docagent_rl.lab.generate.generation import Generation
from docagent_rl.lab.generate.replies import load_prompts
from docagent_rl.samples.validation import sample_problems
from tests.chat_server import ChatServer, completion, threaded
from tests.lab.generate.reading_model import reply_to

MANY = tuple(
    KindConfig(kind=kind, per_document=8 if kind is EvidenceKind.SINGLE_PAGE else 4, questions=2)
    for kind in EvidenceKind
)


def generation(
    store, server, folder, *, documents=None, known=(), meter=None, concurrency=16, **changes
):
    config = GenerateConfig(**{"kinds": MANY, **changes})
    options = {"price": {"input": 1.0, "output": 4.0}, "backoff_s": 0, "concurrency": concurrency}
    model = open_model(
        ModelConfig(base_url=server.url, model="m", **options), "model", folder, meter=meter
    )
    prompts = load_prompts(config.prompts)
    return Generation(store, documents or store.doc_ids(), config, prompts, model, known=known)


def few(
    store, server, folder, count, *, kind=EvidenceKind.SINGLE_PAGE, documents=("alpha",), **more
) -> Generation:
    """Return a generation of some questions about a document."""
    kinds = (KindConfig(kind=kind, per_document=count),)
    return generation(store, server, folder, kinds=kinds, documents=documents, **more)


def play(run: Generation):
    asyncio.run(run.run())
    return run.outcome()


def lines(samples) -> list[str]:
    return [sample.to_json() for sample in samples]


def asks(request: dict, words: str) -> bool:
    """Return whether the instructions contain the words."""
    return words in json.dumps(request["messages"][0])


def failing(status: int, which, times: int = 1):
    """Reply as the model does, except to the first requests of one kind, which fail each time they
    are made.
    """
    chosen = []

    def compute(request: dict):
        if len(chosen) < times and request["messages"] not in chosen and which(request):
            chosen.append(request["messages"])
        return status if request["messages"] in chosen else reply_to(request)

    return compute


@pytest.fixture(scope="module")
def whole(reports, tmp_path_factory):
    """Return a run with all kinds of questions, and its server."""
    folder = tmp_path_factory.mktemp("whole")
    with threaded(ChatServer(compute=reply_to)) as server:
        run = generation(reports, server, folder)
        samples, funnel = play(run)
        yield SimpleNamespace(run=run, samples=samples, funnel=funnel, server=server, folder=folder)


@pytest.mark.slow
def test_every_stage_of_the_funnel_drops_what_it_is_for(reports, whole):
    samples, funnel = whole.samples, whole.funnel
    lost = {stage: [each for each in funnel.dropped if each.stage is stage] for stage in DropStage}
    assert {stage for stage, found in lost.items() if not found} == {*OUTAGES, DropStage.UNREAD}
    assert {sample.extra["kind"] for sample in samples} == set(EvidenceKind) - {EvidenceKind.CHART}
    # what is kept is what the model wrote in good faith
    for sample in samples:
        assert sample_problems(sample, store=reports) == []
        assert not {"Paris", "9,999,999"} & set(sample.answers)
        assert "registered office" not in sample.question
        several = sample.extra["kind"] == EvidenceKind.MULTI_PAGE
        for page in sample.evidence_pages if not several else ():
            text = " ".join(reports.document(sample.doc_id).page(page).text().split())
            assert f"{sample.answers[0]}." in text
        assert len(sample.evidence_pages) >= 2 * several
    rows = dict(funnel.rows())
    after = sum(
        len(lost[stage])
        for stage in lost
        if stage not in (DropStage.UNREADABLE, DropStage.DECLINED)
    )
    assert rows["questions written"].total() == after + len(samples)
    assert rows["requests for questions"].total() == len(funnel.planned)


def test_a_budget_is_kept_and_the_run_goes_on(reports, server, tmp_path):
    two = ("alpha", "beta")
    whole, _ = play(few(reports, server, tmp_path / "whole", 4, documents=two))
    asked, steps = len(server.requests), 0
    most = asked // 4 + 1
    while True:
        run = few(
            reports, server, tmp_path / "cut", 4, documents=two, meter=Meter(max_requests=most)
        )
        steps += 1
        try:
            asyncio.run(run.run())
        except BudgetError:
            assert run.model.meter.spent.requests <= most
            assert run.undone > 0
            continue
        break
    assert steps > 2
    assert lines(run.outcome()[0]) == lines(whole)
    assert len(server.requests) == 2 * asked


def test_pictures_are_shown_to_a_model_that_sees(sheets, server, tmp_path):
    run = few(
        sheets,
        server,
        tmp_path,
        4,
        kind=EvidenceKind.PAGE_INDEX,
        documents=("sheets",),
        view=PageView.IMAGE,
    )
    samples, funnel = play(run)
    answers = {sample.evidence_pages: sample.answers for sample in samples}
    assert answers == {(1,): ("red",), (2,): ("green",), (3,): ("blue",), (4,): ("white",)}
    assert "base64" not in funnel.to_json("x")
    with pytest.raises(UserError, match=r"--view image"):
        generation(sheets, server, tmp_path)


def test_one_answer_that_a_judge_refuses_to_compare_drops_its_question_alone(
    reports, server, tmp_path
):
    server.compute = failing(400, lambda request: asks(request, "You grade answers"), times=2)
    samples, funnel = play(few(reports, server, tmp_path, 6, documents=("alpha", "beta")))
    unchecked = [each for each in funnel.dropped if each.stage is DropStage.UNCHECKED]
    assert ["HTTP 400" in each.reason for each in unchecked] == [True, True]
    assert samples
    # nothing of a refusal is kept: the next run asks again, and its file may take the place of this
    # one
    assert json.loads(funnel.to_json("x"))["unanswered"]["count"] == 2
    server.compute = reply_to
    again, funnel = play(few(reports, server, tmp_path, 6, documents=("alpha", "beta")))
    assert (funnel.unanswered, len(again) >= len(samples)) == (0, True)


def test_replies_that_are_cut_off_are_counted(reports, server, tmp_path):
    server.compute = lambda request: completion("{", "length")
    samples, funnel = play(few(reports, server, tmp_path, 1))
    assert samples == []
    assert {each.stage for each in funnel.dropped} == {DropStage.UNREADABLE}
    assert "--reply-tokens" in funnel.dropped[0].reason


def test_a_server_that_is_gone_ends_the_run(reports, server, tmp_path):
    server.compute = lambda request: 503
    told = r"document 'alpha', page \d+: .*HTTP 503"
    with pytest.raises(InfrastructureError, match=told):
        play(few(reports, server, tmp_path, 12, concurrency=1))
    assert len(server.requests) == 3 * IN_A_ROW


def test_known_questions_are_not_asked_again_and_other_seeds_ask_others(reports, server, tmp_path):
    samples, _ = play(few(reports, server, tmp_path, 4, kind=EvidenceKind.PAGE_INDEX))
    kept, funnel = play(
        few(reports, server, tmp_path, 4, kind=EvidenceKind.PAGE_INDEX, known=samples[:2])
    )
    assert [sample.question for sample in kept] == [sample.question for sample in samples[2:]]
    assert [each.stage for each in funnel.dropped][-2:] == [DropStage.DUPLICATE] * 2
    other, _ = play(few(reports, server, tmp_path, 4, kind=EvidenceKind.PAGE_INDEX, seed=1))
    both = {sample.question_id: sample.question for sample in (*samples, *other)}
    assert (
        len(both)
        == len({(sample.doc_id, sample.question) for sample in (*samples, *other)})
        > len(samples)
    )


@pytest.mark.parametrize(("json_schema", "kind"), [(False, None), (True, "json_schema")])
def test_a_server_may_be_told_to_write_json_alone(reports, server, tmp_path, json_schema, kind):
    play(few(reports, server, tmp_path, 6, json_schema=json_schema))
    formats = {
        (asks(request, "You grade answers"), request.get("response_format", {}).get("type"))
        for request in server.requests
    }
    # a verdict is no JSON object
    assert formats == {(True, None), (False, kind)}
