from __future__ import annotations

import pytest

from docagent_rl.eval.report.differences import Verdict, differences
from docagent_rl.eval.report.facts import RunFacts
from docagent_rl.eval.report.targets import rows_for
from docagent_rl.eval.scoring.agent import agent_of
from docagent_rl.eval.scoring.experts import Author

VRAG = rows_for("vrag_rl_qwen2_5_vl_7b", "vrag_rl")[0]
SECTION = {
    "system": "vrag_rl",
    "prompt": None,
    "judge": {"prompt": "judge", "model": "other"},
    "retriever": {"kind": "late_interaction", "model": "colqwen2-v1.0"},
    # null: as the paper's variant has it
    "env": {
        "variant": "paper",
        "max_turns": None,
        "display": {"min_pixels": 200704, "max_pixels": 401408, "snap": None},
        "search": {"scope": "corpus", "top_k": 10, "pages_per_search": 1, "exclude_shown": False},
    },
}
MANIFEST = {
    "recipe": "vrag_rl_qwen2_5_vl_7b",
    "agent": "system",
    "player": {"player": "chat", "model": {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "temperature": 0.0}},
    "config": {"docagent": SECTION, "actor_rollout_ref.rollout.val_kwargs": {"temperature": 1.0}},
}


def verdicts(run, judges=("Qwen/Qwen2.5-7B-Instruct",), questions=2215, row=VRAG):
    return {fact.name: fact.verdict for fact in differences(run, row, "slidevqa", questions, judges)}


def test_a_run_like_the_papers_differs_in_what_cannot_be_the_same():
    found = verdicts(RunFacts.of(MANIFEST))
    assert found.pop("prompt") is Verdict.DIFFERENT  # the package's words are its own
    assert found.pop("its prompt") is Verdict.DIFFERENT
    assert found.pop("model") is Verdict.UNKNOWN  # a name does not tell how it was trained
    assert found.pop("remark") is Verdict.UNKNOWN
    assert set(found) == {
        "retriever", "judge or extractor", "questions", "size of pages", "pages searched", "temperature",
    }  # fmt: skip
    assert set(found.values()) == {Verdict.SAME}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("retriever", {"retriever": "bm25"}),
        ("model", {"model": "SmolLM2-135M-Instruct"}),
        ("size of pages", {"display": {"min_pixels": 200704, "max_pixels": 1}}),
        ("pages searched", {"scope": "document"}),
        ("temperature", {"temperature": 0.7}),
        ("retriever", {"retriever": "colqwen2.5-v0.2"}),
    ],
)
def test_what_differs_is_told(name, change):
    facts = RunFacts.of(MANIFEST)
    changed = RunFacts(**{field: getattr(facts, field) for field in facts.__slots__} | change)
    assert verdicts(changed)[name] is Verdict.DIFFERENT
    assert [n for n, v in verdicts(changed).items() if v is not verdicts(facts)[n]] == [name]


def test_judges_and_questions_differ():
    assert verdicts(RunFacts.of(MANIFEST), [Author.RULE.value])["judge or extractor"] is Verdict.DIFFERENT
    assert verdicts(RunFacts.of(MANIFEST), questions=3)["questions"] is Verdict.DIFFERENT
    assert "judge or extractor" not in verdicts(RunFacts.of(MANIFEST), [])
    assert "its prompt" not in verdicts(RunFacts.of(MANIFEST), [Author.RULE.value])


@pytest.mark.parametrize(
    ("judge", "verdict"),
    [
        ("gpt-4o", Verdict.SAME),
        ("openai/gpt-4o-2024-08-06", Verdict.SAME),
        ("gpt-4o-mini", Verdict.DIFFERENT),
        ("gpt-4.1", Verdict.DIFFERENT),
    ],
)
def test_a_name_with_a_version_is_the_papers_and_that_of_another_model_is_not(judge, verdict):
    row = rows_for("alden_qwen2_5_vl_7b", "alden")[0]
    assert verdicts(RunFacts.of(MANIFEST), [judge], row=row)["judge or extractor"] is verdict


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        ({"kind": "dense", "model": "e5-large-v2"}, Verdict.SAME),
        ({"kind": "bm25", "model": None}, Verdict.DIFFERENT),
        (None, Verdict.DIFFERENT),
    ],
)
def test_texts_of_a_hybrid_are_found_by_a_retriever_of_their_own(texts, verdict):
    row = rows_for("alden_hybrid_qwen2_5_vl_7b", "alden")[0]
    section = SECTION | {"text_retriever": texts, "retriever": {"kind": "dense", "model": "vdr-2b-v1"}}
    found = verdicts(RunFacts.of(MANIFEST | {"config": {"docagent": section}}), row=row)
    assert (found["retriever"], found["retriever of texts"]) == (Verdict.SAME, verdict)


def test_changes_of_the_recipe_are_told():
    run = RunFacts.of(MANIFEST | {"changes": {"docagent.env.max_turns": 3, "docagent.env.fetch": False}})
    fact = next(
        each for each in differences(run, VRAG, "slidevqa", 2215, []) if each.name == "settings of the recipe"
    )
    assert fact.ours == "docagent.env.fetch=false, docagent.env.max_turns=3"
    assert fact.verdict is Verdict.DIFFERENT
    assert "settings of the recipe" not in verdicts(RunFacts.of(MANIFEST | {"changes": {}}))


def test_what_nobody_wrote_down_is_not_known():
    found = verdicts(RunFacts.of({}))
    assert {name for name, verdict in found.items() if verdict is not Verdict.UNKNOWN} == {
        "judge or extractor",
        "its prompt",
        "questions",
    }
    assert verdicts(RunFacts.of({"prompt": "/mine/theirs.yaml"}))["prompt"] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "manifest",
    [
        {"player": {"temperature": True}, "retriever": 3, "env": {"display": [1], "scope": 7}, "prompt": {}},
        {"docagent": "x", "player": 3},
        {},
    ],
)
def test_odd_descriptions_say_nothing(manifest):
    assert RunFacts.of(manifest) == RunFacts()


def test_a_description_without_a_configuration_is_read_at_its_top():
    facts = RunFacts.of({"retriever": {"kind": "bm25", "model": None}, "prompt": "mine.yaml"})
    assert (facts.retriever, facts.prompt) == ("bm25", "mine.yaml")


def test_values_that_a_variant_sets_are_known():
    env = {"display": {"min_pixels": 261070, "max_pixels": None}}
    facts = RunFacts.of({"config": {"docagent": {"system": "alden", "env": env}}})
    assert facts.display["max_pixels"] == 2508800
    assert facts.scope == "document"  # it has no other
    env = {"nonsense": 1, "scope": "corpus"}
    assert RunFacts.of({"config": {"docagent": {"system": "alden", "env": env}}}).scope == "corpus"


def test_what_sessions_were_shown_is_said_by_the_player():
    display = {"min_pixels": 12544, "max_pixels": 50176}
    player = {"model": "m", "environment": {"env": {"display": display, "search": {"scope": "document"}}}}
    facts = RunFacts.of(MANIFEST | {"player": player})
    assert (facts.display, facts.scope) == (display, "document")
    assert verdicts(facts)["size of pages"] is Verdict.DIFFERENT


def test_a_system_of_a_users_own_is_not_imported():
    facts = RunFacts.of({"docagent": {"system": "no_such_module_at_all:SYSTEM", "env": {"scope": "corpus"}}})
    assert facts.scope == "corpus"


def test_an_oracle_is_no_model_of_the_paper():
    oracle = MANIFEST | {"agent": "oracle", "player": {"model": "oracle"}}
    assert verdicts(RunFacts.of(oracle))["model"] is Verdict.DIFFERENT
    assert RunFacts.of(MANIFEST).agent is None


def test_models_of_what_a_script_plays_in_are_not_its_own():
    judge = {"model": "Qwen2.5-72B-Instruct", "temperature": 0.0}
    played = {"recipe": "x", "player": {"player": "oracle", "environment": {"judge": judge}}}
    assert agent_of(played) == "oracle"
    assert (RunFacts.of(played).model, RunFacts.of(played).temperature) == (None, None)
