"""An evaluation plays questions by a recipe and its overrides, and writes results."""

from dataclasses import replace
from itertools import pairwise

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.eval.evaluation import draw_questions, questions_digest, unplayed_table
from docagent_rl.lab.eval.play_config import play_config
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import MaskReason, Status
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import get_system
from docagent_rl.training.engine.settings import EngineSettings

VRAG, ALDEN, TEXT = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b"


def configured(recipe, agent, *overrides):
    run = play_config(recipe, agent, overrides)
    parsed = DocAgentConfig.parse(plain_section(run.docagent))
    return run, parsed, get_system(parsed.system).parse_config(parsed.env)


def test_a_whole_document_gets_the_context_of_the_recipe_but_one_turn():
    run, parsed, env = configured(VRAG, Agent.WHOLE_DOCUMENT)
    assert run.data.max_prompt_length == parsed.rollout.prompt_tokens == 10240 - 2048
    assert run.data.max_response_length == 2048
    assert (env.form.value, env.display.max_pixels) == ("image", 401408)
    assert configured(TEXT, Agent.WHOLE_DOCUMENT)[2].form.value == "text"
    others = (Agent.QUESTION_ONLY, Agent.GOLD_EVIDENCE)
    for searchless in (parsed, *(configured(VRAG, agent)[1] for agent in others)):
        assert searchless.retriever.kind.endswith(":Unasked")
        assert searchless.retriever.index is None


@pytest.mark.parametrize(("recipe", "scope"), [(VRAG, "corpus"), (ALDEN, "document")])
def test_searches_look_where_the_recipes_do(recipe, scope):
    _, parsed, env = configured(recipe, Agent.RAG_IMAGE)
    assert env.scope.value == scope
    assert parsed.retriever.kind != "bm25"
    assert parsed.text_retriever is parsed.prompt is None


@pytest.mark.parametrize(("recipe", "form"), [(VRAG, "text"), (TEXT, "text")])
def test_search_r1_reads_texts_in_as_many_turns_as_the_recipe_has(recipe, form):
    run, parsed, env = configured(recipe, Agent.SEARCH_R1, "+retriever=bm25")
    system = configured(recipe, Agent.SYSTEM)[0]
    assert (env.form.value, env.max_turns) == (form, {VRAG: 5, TEXT: 4}[recipe])
    assert parsed.retriever.kind == "bm25"
    assert run.data.max_prompt_length == system.data.max_prompt_length


HYBRID = "alden_hybrid_qwen2_5_vl_7b"


@pytest.mark.parametrize(("recipe", "ranking"), [(HYBRID, "own"), (ALDEN, "shared")])
def test_mdocagent_ranks_texts_as_the_recipe_does(recipe, ranking):
    run, parsed, env = configured(recipe, Agent.MDOCAGENT, "docagent.env.top_k=4")
    assert (env.text_ranking.value, env.top_k, env.scope.value) == (ranking, 4, "document")
    assert (parsed.text_retriever is not None) == (ranking == "own")
    assert configured(recipe, Agent.RAG_TEXT)[1].text_retriever is None
    assert run.data.max_response_length == parsed.rollout.turn_tokens
    assert parsed.rollout.prompt_tokens == run.data.max_prompt_length


def test_overrides_of_the_environment_are_the_baselines_and_the_cpu_profile_keeps_its_sizes():
    changes = [
        "docagent.env.top_k=3",
        "docagent.store=/s",
        "docagent.prompt=mine.yaml",
        "+profile=cpu",
    ]
    run, parsed, env = configured(VRAG, Agent.RAG_IMAGE, *changes)
    assert (env.top_k, env.scope.value, env.display.max_pixels) == (3, "document", 50176)
    assert (str(parsed.store), str(parsed.prompt)) == ("/s", "mine.yaml")
    assert OmegaConf.select(run, "docagent.tiny_model") == "vrag_rl"


@pytest.mark.parametrize(
    ("recipe", "agent", "overrides", "named"),
    [
        (VRAG, Agent.RAG_TEXT, ["docagent.env.alpha=1"], r"docagent\.env\.alpha"),
        (VRAG, Agent.SYSTEM, ["+data.max_promt_length=3"], "max_promt_length"),
        # fine-tuning plays nothing
        (f"sft_{VRAG}", Agent.ORACLE, [], rf"sft_{VRAG}.* {VRAG}\b"),
    ],
)
def test_what_cannot_be_played_is_named(recipe, agent, overrides, named):
    with pytest.raises(UserError, match=named):
        configured(recipe, agent, *overrides)


SAMPLED = "actor_rollout_ref.rollout.val_kwargs"
RELEASED = "docagent.env.variant=released"


@pytest.mark.parametrize(
    ("recipe", "given", "overrides", "temperature"),
    [
        # the tests of ALDEN's release; its validation samples at 0.5
        (ALDEN, None, [RELEASED], 0.2),
        (ALDEN, None, [], 0.2),
        (ALDEN, None, [RELEASED, f"{SAMPLED}.temperature=0.7"], 0.7),
        (ALDEN, 1.0, [RELEASED, f"{SAMPLED}.temperature=0.7"], 1.0),
        (ALDEN, 0.0, [RELEASED], 0.0),
        # without tests of their own, the recipe's validation
        (VRAG, None, [RELEASED], 0.0),
        (VRAG, 1.0, [], 1.0),
    ],
)
@pytest.mark.parametrize("agent", [Agent.SYSTEM, Agent.RAG_TEXT])
def test_who_names_no_temperature_gets_that_of_the_authors_tests(
    recipe, given, overrides, temperature, agent
):
    run = play_config(recipe, agent, overrides, temperature=given)
    sampling = OmegaConf.select(run, SAMPLED)
    assert (sampling.temperature, sampling.do_sample) == (temperature, temperature > 0)
    parsed = DocAgentConfig.parse(plain_section(run.docagent))
    assert EngineSettings.of(run, parsed).sampling.temperature == temperature


def questions(number):
    return [
        Sample(f"q{n}", "own", Split.TEST, "d", f"Question {n}?", ("yes",), extra={"row": n})
        for n in range(number)
    ]


def test_a_choice_is_in_the_order_of_the_file_and_a_larger_one_holds_the_smaller():
    samples = questions(30)
    rows = [
        [sample.extra["row"] for sample in draw_questions(samples, limit, 1)]
        for limit in range(1, 31)
    ]
    for limit, (smaller, larger) in enumerate(pairwise(rows), 1):
        assert smaller == sorted(smaller)
        assert (len(smaller), set(smaller) < set(larger)) == (limit, True)
    assert (
        draw_questions(samples, 10, 4)
        == draw_questions(samples, 10, 4)
        != draw_questions(samples, 10, 5)
    )
    others = [samples[:29], samples[::-1]]
    assert (
        questions_digest(samples)
        == questions_digest(questions(30))
        not in map(questions_digest, others)
    )
    assert all(draw_questions(samples, limit, 0) == samples for limit in (None, 30, 99))


def masked(uid):
    played = new_trajectory(Sample(uid, "own", Split.TEST, "d", "Where?", ("there",)), 0, "none")
    end, why = MaskReason.SAMPLE.value, "bad [red]\x1b[2J"
    return replace(played, status=Status.MASKED.value, end=end, error=why)


def test_reasons_are_listed_and_harmless():
    table = unplayed_table([masked(f"q{n}") for n in range(12)])
    assert "12 sample" in str(table.title)
    questions, reasons = (list(map(str, column.cells)) for column in table.columns)
    assert questions == [*(f"q{n}" for n in range(10)), ""]
    assert all("[red]" in reason and "\x1b" not in reason for reason in reasons[:10])
