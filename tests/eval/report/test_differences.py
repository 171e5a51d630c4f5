from __future__ import annotations

import pytest

from docagent_rl.eval.report.differences import Verdict, differences
from docagent_rl.eval.report.facts import RunFacts
from docagent_rl.eval.report.targets import rows_for
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


def test_what_nobody_wrote_down_is_not_known():
    found = verdicts(RunFacts.of({}))
    assert {name for name, verdict in found.items() if verdict is not Verdict.UNKNOWN} == {
        "judge or extractor",
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


def test_a_system_of_a_users_own_is_not_imported():
    facts = RunFacts.of({"docagent": {"system": "no_such_module_at_all:SYSTEM", "env": {"scope": "corpus"}}})
    assert facts.scope == "corpus"


def test_an_oracle_is_no_model_of_the_paper():
    oracle = MANIFEST | {"agent": "oracle", "player": {"model": "oracle"}}
    assert verdicts(RunFacts.of(oracle))["model"] is Verdict.DIFFERENT
    assert RunFacts.of(MANIFEST).agent is None
