from __future__ import annotations

import dataclasses
from dataclasses import asdict

import pytest

from docagent_rl.lab.eval.report.papers import Verdict, differences, rows_for
from docagent_rl.lab.eval.run_facts import RunFacts
from docagent_rl.lab.eval.scoring.experts import Author

VRAG = rows_for("vrag_rl_qwen2_5_vl_7b", "vrag_rl")[0]
JUDGE = "judge or extractor"
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
FACTS = RunFacts.of(MANIFEST)
ALDEN = {"system": "alden", "env": {"display": {"min_pixels": 261070, "max_pixels": None}}}
SHOWN = {"min_pixels": 12544, "max_pixels": 50176}
PLAYER = {"model": "m", "environment": {"env": {"display": SHOWN, "search": {"scope": "document"}}}}
ODD = {"player": {"temperature": True}, "retriever": 3, "env": {"display": [1], "scope": 7}, "prompt": {}}


def verdicts(run=FACTS, judges=("Qwen/Qwen2.5-7B-Instruct",), questions=2215, row=VRAG):
    return {fact.name: fact.verdict for fact in differences(run, row, "slidevqa", questions, judges)}


def test_a_run_like_the_papers_differs_in_what_cannot_be_the_same():
    same = ("retriever", JUDGE, "questions", "size of pages", "pages searched", "temperature")
    assert verdicts() == {
        "prompt": Verdict.DIFFERENT,  # the package's words are its own
        "its prompt": Verdict.DIFFERENT,
        "model": Verdict.UNKNOWN,  # a name does not tell how it was trained
        "remark": Verdict.UNKNOWN,
        **dict.fromkeys(same, Verdict.SAME),
    }


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("retriever", {"retriever": "bm25"}),
        ("retriever", {"retriever": "colqwen2.5-v0.2"}),
        ("model", {"model": "SmolLM2-135M-Instruct"}),
        ("model", {"agent": "oracle"}),
        ("size of pages", {"display": {"min_pixels": 200704, "max_pixels": 1}}),
        ("pages searched", {"scope": "document"}),
        ("temperature", {"temperature": 0.7}),
    ],
)
def test_what_differs_is_told(name, change):
    found = verdicts(dataclasses.replace(FACTS, **change))
    assert found == verdicts() | {name: Verdict.DIFFERENT}


def test_judges_and_questions_differ():
    assert verdicts(questions=3) == verdicts() | {"questions": Verdict.DIFFERENT}
    ruled = verdicts(judges=[Author.RULE.value])
    assert (ruled[JUDGE], "its prompt" in ruled) == (Verdict.DIFFERENT, False)
    assert JUDGE not in verdicts(judges=[])


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
    assert verdicts(judges=[judge], row=row)[JUDGE] is verdict


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
    facts = {fact.name: fact for fact in differences(run, VRAG, "slidevqa", 2215, [])}
    fact = facts["settings of the recipe"]
    assert fact.ours == "docagent.env.fetch=false, docagent.env.max_turns=3"
    assert fact.verdict is Verdict.DIFFERENT
    assert "settings of the recipe" not in verdicts(RunFacts.of(MANIFEST | {"changes": {}}))


def test_what_nobody_wrote_down_is_not_known():
    found = verdicts(RunFacts.of({}))
    known = {name for name, verdict in found.items() if verdict is not Verdict.UNKNOWN}
    assert known == {JUDGE, "its prompt", "questions"}
    assert verdicts(RunFacts.of({"prompt": "/mine/theirs.yaml"}))["prompt"] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("manifest", "facts"),
    [
        # without a configuration, at its top
        (
            {"retriever": {"kind": "bm25", "model": None}, "prompt": "mine.yaml"},
            {"retriever": "bm25", "prompt": "mine.yaml"},
        ),
        ({"docagent": {"system": "alden", "env": {"nonsense": 1, "scope": "corpus"}}}, {"scope": "corpus"}),
        # a system of a user's own is not imported
        ({"docagent": {"system": "no_such_module:SYSTEM", "env": {"scope": "corpus"}}}, {"scope": "corpus"}),
        # values that a variant sets; it has no other scope
        ({"config": {"docagent": ALDEN}}, {"scope": "document"}),
        # what trajectories were shown is said by the player
        (MANIFEST | {"player": PLAYER}, {"display": SHOWN, "scope": "document", "model": "m"}),
        ({"docagent": "x", "player": 3}, asdict(RunFacts())),
        (ODD, asdict(RunFacts())),
        # models of what a script plays in are not its own
        (
            {"player": {"player": "oracle", "environment": {"judge": {"model": "m", "temperature": 0.0}}}},
            {"model": None, "temperature": None},
        ),
    ],
)
def test_descriptions_are_read_as_far_as_they_go(manifest, facts):
    found = RunFacts.of(manifest)
    assert {name: getattr(found, name) for name in facts} == facts


def test_values_that_a_variant_sets_are_known():
    assert RunFacts.of({"config": {"docagent": ALDEN}}).display["max_pixels"] == 2508800
