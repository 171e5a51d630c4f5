"""Numbers that papers print, compared with the recipes that quote them, and the facts on which they
and runs rest.
"""

import re

import pytest

from docagent_rl.checks.recipe_list import ablation_recipes, recipe_names, recipe_summary
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.eval.report.papers import EVERY, paper_rows, rows_for, size_of_test_set
from docagent_rl.lab.eval.report.statistics import ALL
from docagent_rl.lab.eval.run_facts import facts_of
from docagent_rl.lab.eval.scoring.played import KINDS, labels_of
from docagent_rl.lab.eval.scoring.protocols import NAVIGATION, PROTOCOLS, TOOLS, paper_measures
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.samples.sample import Split
from tests.lab.eval.scoring.trajectories import question

MANIFEST = {
    "recipe": "vrag_rl_qwen2_5_vl_7b",
    "agent": "system",
    "overrides": ["+profile=cpu", "docagent.env.max_turns=3"],
    "player": {
        "player": "chat",
        "model": {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "temperature": 0.0},
        "environment": {
            "env": {
                "display": {"min_pixels": 200704, "max_pixels": 401408, "snap": None},
                "search": {"scope": "corpus", "top_k": 10},
            },
            "judge": {"model": "other", "temperature": 1.0},
            "retrievers": {
                "docagent.retriever": {"kind": "late_interaction", "model": "colqwen2-v1.0"}
            },
        },
    },
    "config": {"docagent": {"system": "vrag_rl", "prompt": None}},
}


def test_the_facts_of_a_run_are_called_as_those_of_its_paper():
    found = facts_of(MANIFEST)
    assert found == {
        "model": "Qwen2.5-VL-7B-Instruct",
        "retriever": "colqwen2-v1.0",
        "prompt": "the system's own in this package",
        "size of pages": "min_pixels 200704, max_pixels 401408",
        "pages searched": "corpus",
        "temperature": "0.0",
        "overrides": "+profile=cpu docagent.env.max_turns=3",
    }
    (row,) = rows_for("vrag_rl_qwen2_5_vl_7b", "vrag_rl")
    assert {
        "model",
        "retriever",
        "size of pages",
        "pages searched",
        "temperature",
    } < row.facts.keys()
    assert row.facts["retriever"] == "colqwen2 or colpali"
    assert row.facts["size of pages"] == found["size of pages"]


@pytest.mark.parametrize(
    ("manifest", "facts"),
    [
        ({"config": {"docagent": {"prompt": "mine.yaml"}}}, {"prompt": "mine.yaml"}),
        # a published system without a choice searches the question's document
        ({"player": {"environment": {"env": {"max_turns": 3}}}}, {"pages searched": "document"}),
        ({"player": {"environment": {"env": {"scope": "corpus"}}}}, {"pages searched": "corpus"}),
        (
            {"player": {"player": "engine", "sampling": {"temperature": 1.0}}},
            {"temperature": "1.0"},
        ),
        # models of what a script plays in are not its own
        ({"player": {"player": "oracle", "environment": {"judge": {"temperature": 0.0}}}}, {}),
        ({"config": "x", "player": 3}, {}),
    ],
)
def test_descriptions_are_read_as_far_as_they_go(manifest, facts):
    found = facts_of(manifest)
    assert {name: value for name, value in found.items() if name != "model"} == facts


RECIPES = [name for name in recipe_names() if "Paper table:" in recipe_summary(name)]
ROWS = {*KINDS, "of the benchmark", "query_type"}


def quoted(name) -> set[float]:
    table = recipe_summary(name).partition("Paper table:")[2].partition("\nHardware")[0]
    table = re.split(r"\n(?:On a laptop|The paper|Start|Training|Frozen)", table)[0]
    return {float(number) for number in re.findall(r"(?<![\d.])\d\d\.\d\b", table)}


@pytest.mark.parametrize("name", RECIPES)
def test_every_number_that_a_recipe_quotes_is_a_target_of_it(name):
    printed = {number.value for row in paper_rows() if row.recipe == name for number in row.numbers}
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
        if row.agent is not None:
            assert Agent(row.agent).baseline
        if row.ablation is not None:
            assert row.recipe in ablation_recipes(row.ablation)
        for number in row.numbers:
            measures = [*NAVIGATION, *TOOLS, *paper_measures(row.system)]
            if number.dataset != EVERY:
                measures += PROTOCOLS[number.dataset].measures
            assert number.measure in {measure.name for measure in measures}
            assert number.row == ALL or number.row[0] in ROWS
            assert 0 < number.value <= 100


@pytest.mark.parametrize("spelling", ["{}_hop", "{}-Hop", "{}Hop"])
def test_lines_of_vidoseek_are_found_however_its_files_spell_them(spelling):
    samples = [
        question(extra={"query_type": spelling.format(each)})
        for each in ("Single", "multi", "other")
    ]
    labels = [label for sample in samples for label in labels_of(sample).items()]
    lines = {(kind, value) for kind, values in labels for value in values}
    printed = {
        target.row for row in paper_rows() for target in row.numbers if target.dataset == "vidoseek"
    }
    assert printed
    assert {
        ("query_type", "Multi-Hop"),
        ("query_type", spelling.format("other")),
        *printed,
    } <= lines


def test_counts_of_questions_are_those_of_the_benchmarks():
    known = {}
    for each in Benchmark:
        rows = get_importer(each).released
        known |= {dataset: count for (dataset, split), count in rows.items() if split is Split.TEST}
    counts = {
        dataset: size_of_test_set(dataset) for dataset in PROTOCOLS if size_of_test_set(dataset)
    }
    assert counts
    assert counts == {dataset: known[dataset] for dataset in counts}


def test_a_run_is_held_against_its_recipe_else_against_its_system():
    assert {row.recipe for row in rows_for("mm_doc_r1_qwen3_4b", "mm_doc_r1")} == {
        "mm_doc_r1_qwen3_4b"
    }
    assert len({row.recipe for row in rows_for(None, "mm_doc_r1")}) == 4
    assert rows_for("mine", "baseline") == []


def labels(*run):
    return [row.label.partition(", ")[2] for row in rows_for(*run)]


def test_models_between_stages_of_training_stand_beside_the_trained_one():
    assert labels("mm_doc_r1_qwen3_8b", "mm_doc_r1") == ["", "untrained"]
    assert labels("doc_v_star_qwen2_5_vl_7b", "doc_v_star")[-1] == "SFT, colqwen2.5"


def test_a_baseline_is_held_against_its_rows_in_the_paper_of_the_recipe():
    assert labels("vrag_rl_qwen2_5_vl_7b", "react") == [
        "ReAct, pages as text",
        "ReAct, pages as images, colqwen2",
    ]
    assert labels("mm_doc_r1_qwen3_8b", "gold_evidence") == [
        "evidence given, pages as images",
        "evidence given, pages as text",
    ]
    assert rows_for("mine", "rag_text") == rows_for("vrag_rl_qwen2_5_vl_7b", "random") == []


def test_a_baseline_whose_model_the_authors_trained_is_called_so():
    made = {}
    for agent in ("react", "search_r1"):
        row = rows_for("vrag_rl_qwen2_5_vl_7b", agent)[0]
        made[agent] = row.facts["model"].partition(", ")[2]
    assert made == {"react": "as published", "search_r1": "trained by the authors"}


def test_an_ablation_is_held_against_its_row_if_it_has_one():
    recipe = "vrag_rl_qwen2_5_vl_7b"
    (plain,) = rows_for(recipe, "vrag_rl")
    (search_r1,) = rows_for(recipe, "vrag_rl", ["+ablations=vrag_rl/search_r1_vl"])
    assert [number.value for number in search_r1.numbers[:2]] == [37.4, 48.3]
    for other in ("+ablations=vrag_rl/no_crop", "docagent.store=ablations"):
        assert rows_for(recipe, "vrag_rl", [other]) == [plain]
    (among,) = rows_for(recipe, "vrag_rl", ["+ablations=[vrag_rl/pad_28, vrag_rl/search_r1_vl]"])
    assert among == search_r1


# sums of the printed values of tables' rows, added up from the papers and not from the file
SUMS = {
    ("vrag_rl_qwen2_5_vl_7b", "rag_text", "Vanilla RAG"): 146.5,
    ("vrag_rl_qwen2_5_vl_3b", "react", "ReAct, pages as text"): 64.6,
    ("vrag_rl_qwen2_5_vl_3b", "search_r1", "Search-R1, pages as text"): 101.4,
    ("unidoc_rl_qwen2_5_vl_7b", "search_r1", "Search-R1, pages as text"): 161.5,
    ("unidoc_rl_qwen2_5_vl_7b", "rag_image", "Vanilla RAG, colqwen2"): 194.0,
    ("alden_qwen2_5_vl_7b", "whole_document", "full document"): 132.8,
    ("alden_qwen2_5_vl_7b", "rag_image", "M3DocRAG of 2 pages, colqwen2-v1"): 189.2,
    ("alden_hybrid_qwen2_5_vl_7b", "vidorag", "ViDoRAG, colqwen2-v1"): 131.8,
    ("alden_hybrid_qwen2_5_vl_7b", "mdocagent", "MDocAgent, colqwen2-v1"): 207.7,
    ("doc_v_star_qwen2_5_vl_7b", "whole_document", "all pages"): 265.1,
    ("doc_v_star_qwen2_5_vl_7b", "doc_v_star", "SFT, colqwen2.5"): 306.0,
    ("mm_doc_r1_qwen3_8b", "rag_text", "RAG top 4, bge-m3"): 341.8,
    ("mm_doc_r1_qwen3_8b", "mdocagent", "MDocAgent on 5 pages"): 324.6,
    ("mm_doc_r1_qwen3_8b", "mm_doc_r1", "untrained"): 423.8,
}


@pytest.mark.parametrize(("recipe", "system", "label"), SUMS)
def test_rows_are_as_printed(recipe, system, label):
    (row,) = (row for row in rows_for(recipe, system) if row.label == f"{recipe}, {label}")
    total = sum(number.value for number in row.numbers)
    assert total == pytest.approx(SUMS[recipe, system, label])
