"""The common behaviour of all systems: how they are named, loaded and configured."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

import docagent_rl
from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.envs.base import AssistantTurn, EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.systems import SYSTEMS, System, get_system
from tests.systems.alden import play as alden
from tests.systems.doc_v_star import play as doc_v_star

BOTH = ("alden", "unidoc_rl", "vrag_rl")
VARIANTS = [(name, "paper") for name in SYSTEMS] + [(name, "released") for name in BOTH]
NULLS = {"variant": None, "prompt": None, "display": None}


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_every_system_can_be_loaded(name, variant):
    system = get_system(name)
    assert isinstance(system, System)
    config = system.parse_config({"variant": variant})
    assert system.parse_config(config) is config
    assert type(config).model_validate_json(config.model_dump_json()) == config
    assert system.name == name
    assert name in system.load_prompt(config).source
    assert system.max_turns(config) >= 1
    assert system.max_images(config) >= 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_paper_is_the_default_and_null_means_left_out(name):
    config = get_system(name).parse_config({})
    assert type(config).model_validate(NULLS) == config == type(config).for_variant("paper")
    with pytest.raises(ValidationError, match="variant"):
        config.variant = "paper"


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"variant": "demo"}, "variant"),
        ({"rounds": 3}, "rounds"),
        ({"display": {"snapp": 1}}, r"display\.snapp"),
    ],
)
def test_mistakes_are_named_with_their_key(name, given, key):
    with pytest.raises(UserError, match=rf"docagent\.env\.{key}"):
        get_system(name).parse_config(given)


MISTAKES = {
    "alden": [({"search": {"pages_per_search": 2}}, "top_k=1")],
    "doc_v_star": [
        ({"retrieval": {"enabled": False}, "fetch": {"enabled": False}}, r"retrieval.*fetch"),
        ({"reward": {"answer": 0.9}}, r"0\.9"),
        ({"overview": {"fit_cells_px": [88, 88]}}, "fit_cells_px"),
        ({"overview": {"font_px": 30}}, "font_px=30"),
        ({"display": {"long_side": 500, "short_side": 600}}, "short_side"),
        ({"display": {"long_side": 27, "short_side": 27}}, "28"),
        ({"display": {"grid": {"min_pixels": 9, "max_pixels": 8}}}, "display.grid"),
        ({"display": {"grid": {"max_pixels": 2_000_000}}}, "1280x1680"),
        ({"context_tokens": 2048}, "context_tokens=2048"),
        ({"answer": {"abstentions": ["  "]}}, "answer.abstentions"),
    ],
    "unidoc_rl": [
        ({"search": {"candidates": 11}}, "top_k=10"),
        ({"grammar": {"select": False}, "search": {"candidates": 3}}, r"search\.candidates=1"),
        (
            {"grammar": {"select": False}, "reward": {"weights": {"select": 0.1}}},
            "weights.select=0",
        ),
        ({"grammar": {"crop": False}, "reward": {"weights": {"roi": 0.1}}}, "weights.roi=0"),
    ],
    "vrag_rl": [
        ({"search": {"pages_per_search": 11}}, "top_k=10"),
        ({"reward": {"alpha": 0.5}}, r"0\.5"),
    ],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_values_that_do_not_fit_each_other(name):
    for given, message in MISTAKES[name]:
        with pytest.raises(UserError, match=message):
            get_system(name).parse_config(given)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("alpha", r"'alpha'.*vrag_rl"),
        *(
            (path, path)
            for path in ("no_such_module:SYSTEM", "docagent_rl:", "docagent_rl.systems:SYSTEMS")
        ),
    ],
)
def test_names_and_paths_that_lead_nowhere(path, named):
    with pytest.raises(UserError, match=named):
        get_system(path)


PACKAGE = Path(docagent_rl.__file__).parent
NAMED = {
    "lab/collect/replay.py": "whose released dialogues are replayed",
    "lab/collect/rules.py": "by whose rules questions are chosen",
    "commands/data_generate.py": "in the way of whose data questions are written",
    "lab/eval/scoring/protocols.py": "data sets",
    "lab/easyr1": "whose recipe is the nearest to a configuration",
    "lab/importers": "data sets",
    "lab/papers": "whose paper is reproduced",
    "samples/selection.py": "whose paper takes which questions",
}
"""Places in which the name of a system is also that of something else."""


NAMES = (*SYSTEMS, "docagent_rl.systems.")


def test_no_module_of_the_kernel_names_a_system():
    found = set()
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not file.is_relative_to(PACKAGE / "systems") and any(name in text for name in NAMES):
            for node in ast.walk(ast.parse(text)):
                named = isinstance(node, ast.Constant) and node.value in tuple(SYSTEMS)
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if named or module.startswith("docagent_rl.systems."):
                    found.add(file.relative_to(PACKAGE).as_posix())
    assert {name for name in found if not name.startswith(tuple(NAMED))} == set()


@pytest.mark.slow
def test_environments_need_neither_verl_nor_torch_nor_a_client():
    code = (
        "import sys, docagent_rl.systems as s; [s.get_system(name).parse_config({}) for name in "
        "s.SYSTEMS]; "
        "sys.exit(any(name in sys.modules for name in ('verl', 'torch', 'ray', 'openai', 'vllm')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    """Benchmarks that name no evidence (UDA, hidden test sets) are played in validation and
    evaluation.
    """
    question = make_sample(extra={}, evidence_pages=())
    trained, validated = (
        get_system(name).make_env({}, services, validate=v) for v in (False, True)
    )
    with pytest.raises(UserError, match="'q1'"):
        trained.opening(question)
    assert validated.opening(question).messages
