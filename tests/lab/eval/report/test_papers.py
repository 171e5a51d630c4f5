"""Numbers that papers print, against the recipes that quote them, and facts that separate a run from them."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import asdict

import pytest

from docagent_rl.checks.recipe_list import recipe_names, recipe_summary
from docagent_rl.lab.eval.report.papers import (
    EVERY,
    Verdict,
    differences,
    paper_rows,
    questions_of,
    rows_for,
)
from docagent_rl.lab.eval.report.statistics import ALL
from docagent_rl.lab.eval.run_facts import RunFacts
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.played import KINDS, labels_of
from docagent_rl.lab.eval.scoring.protocols import NAVIGATION, PROTOCOLS, TOOLS, paper_measures
from docagent_rl.samples.importers import Benchmark, get_importer
from docagent_rl.samples.sample import Split
from tests.lab.eval.scoring.trajectories import question

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


RECIPES = [name for name in recipe_names() if "Paper table:" in recipe_summary(name)]
ROWS = {*KINDS, "of the benchmark", "query_type"}


def quoted(name) -> set[float]:
    table = recipe_summary(name).partition("Paper table:")[2].partition("\nHardware")[0]
    table = re.split(r"\n(?:On a laptop|The paper|Start|Training|Frozen)", table)[0]
    return {float(number) for number in re.findall(r"(?<![\d.])\d\d\.\d\b", table)}


@pytest.mark.parametrize("name", RECIPES)
def test_every_number_that_a_recipe_quotes_is_a_target_of_it(name):
    printed = {number.value for row in rows_for(name, "") for number in row.numbers}
    # averages over benchmarks are no number of any of them
    averages = {38.6, 41.0, 43.6, 44.6} if name.startswith("alden") else set()
    assert quoted(name) - averages <= printed
    assert len(quoted(name)) >= 2


def test_targets_name_measures_that_there_are_and_none_twice():
    recipes = set(recipe_names())
    for row in paper_rows():
        assert row.recipe in recipes
        places = [(number.dataset, number.measure, number.row) for number in row.numbers]
        assert len(set(places)) == len(places), row.recipe
        for number in row.numbers:
            measures = [*NAVIGATION, *TOOLS, *paper_measures(row.system)]
            if number.dataset != EVERY:
                measures += PROTOCOLS[number.dataset].measures
            assert number.measure in {measure.name for measure in measures}
            assert number.row == ALL or number.row[0] in ROWS
            assert 0 < number.value <= 100


@pytest.mark.parametrize("spelling", ["{}_hop", "{}-Hop", "{}Hop"])
def test_lines_of_vidoseek_are_found_however_its_files_spell_them(spelling):
    samples = [question(extra={"query_type": spelling.format(each)}) for each in ("Single", "multi", "other")]
    labels = [label for sample in samples for label in labels_of(sample).items()]
    lines = {(kind, value) for kind, values in labels for value in values}
    printed = {target.row for row in paper_rows() for target in row.numbers if target.dataset == "vidoseek"}
    assert printed
    assert {("query_type", "Multi-Hop"), ("query_type", spelling.format("other")), *printed} <= lines


def test_counts_of_questions_are_those_of_the_benchmarks():
    known = {}
    for each in Benchmark:
        rows = get_importer(each).rows_known
        known |= {dataset: count for (dataset, split), count in rows.items() if split is Split.TEST}
    counts = {dataset: questions_of(dataset) for dataset in PROTOCOLS if questions_of(dataset)}
    assert counts
    assert counts == {dataset: known[dataset] for dataset in counts}


def test_a_run_is_held_against_its_recipe_else_against_its_system():
    assert {row.recipe for row in rows_for("mm_doc_r1_qwen3_4b", "mm_doc_r1")} == {"mm_doc_r1_qwen3_4b"}
    assert len({row.recipe for row in rows_for(None, "mm_doc_r1")}) == 4
    assert rows_for("mine", "baseline") == []
