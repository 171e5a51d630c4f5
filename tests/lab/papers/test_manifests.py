"""Manifests name existing recipes, commands, options, presets and printed numbers."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun
from docagent_rl.checks.recipe_list import ROOT, TrainerKind, recipe_kind, recipe_names
from docagent_rl.checks.services import check_second_ranking
from docagent_rl.cli import app
from docagent_rl.lab.eval.play_config import play_config
from docagent_rl.lab.papers.estimates import sizes
from docagent_rl.lab.papers.manifest import (
    FOLDER,
    UNKNOWN,
    paper_systems,
    parse_paper,
    read_paper,
)
from docagent_rl.lab.papers.reproduction import reproduction
from docagent_rl.systems import SYSTEMS
from tests.lab.stages.commands import baseline_of, check_words, overrides_of, parse, words_of

TARGETS = Path(__file__).parents[3] / "docagent_rl" / "lab" / "eval" / "report" / "targets.yaml"
BEGINNINGS = ("sft", "scratch")
CHAINS = [
    *(
        (system, each, model.recipe)
        for system in paper_systems()
        for each in BEGINNINGS
        for model in read_paper(system).models
    ),
    *(
        (system, "weights", model.recipe)
        for system in paper_systems()
        for model in read_paper(system).models
        if model.weights
    ),
]


def test_every_system_has_a_manifest():
    assert paper_systems() == sorted(SYSTEMS)


@pytest.mark.parametrize("system", paper_systems())
def test_recipes_exist_and_follow_each_other(system):
    manifest = read_paper(system)
    assert manifest.system == system
    for model in manifest.models:
        assert model.recipe in recipe_names()
        assert model.recipe.startswith(system)
        assert sizes(model.recipe)["parameters"] > 1e9
        if model.sft is not None:
            assert recipe_kind(model.sft) is TrainerKind.SFT
            assert model.sft == f"sft_{model.recipe}"
    assert (manifest.collection is None) == (manifest.models[0].sft is None)


@pytest.mark.parametrize("system", paper_systems())
def test_what_is_printed_is_what_the_report_prints(system):
    rows = yaml.safe_load(TARGETS.read_text())["rows"]
    for model in read_paper(system).models:
        if model.weights is None:
            continue
        overall = [
            number["value"]
            for row in rows
            if row["recipe"] == model.recipe
            for number in row["numbers"]
            if number["dataset"] == "all"
        ]
        assert overall == [model.weights.printed]


@pytest.mark.parametrize("system", paper_systems())
def test_counts_are_those_that_the_importers_know(system):
    from docagent_rl.lab.importers import get_importer

    for name, each in read_paper(system).downloads.items():
        released = get_importer(each.benchmark).released
        known = {split.value: rows for (_, split), rows in released.items()}
        for split, rows in each.questions.items():
            if split in known and len(released) == len(known) and name != "uda":
                assert rows == known[split], (name, split)
        assert each.sha256 == UNKNOWN  # none was seen: who adds one says from where
        assert each.hub or each.by_hand


@pytest.mark.parametrize("miniature", [False, True])
@pytest.mark.parametrize(("system", "beginning", "recipe"), CHAINS)
def test_every_command_is_one_of_ours_with_options_that_it_has(
    setting, tmp_path, system, beginning, recipe, miniature
):
    if miniature and beginning == "weights":
        return
    chosen = setting(system, beginning, recipe=recipe, miniature=miniature)
    chain = reproduction(chosen, "go on")
    names = [stage.name for stage in chain.stages]
    assert len(names) == len(set(names))
    served = {service.name for service in chain.services}
    for stage in chain.stages:
        assert set(stage.services) <= served
        if stage.command is None:
            assert stage.by_hand
            assert stage.outputs
            continue
        for words in words_of(stage.command, tmp_path):
            check_words(words)


@pytest.mark.parametrize(("system", "beginning", "recipe"), CHAINS)
def test_inputs_are_made_by_stages_before(setting, system, beginning, recipe):
    chosen = setting(system, beginning, recipe=recipe)
    made: set[Path] = set()
    for stage in reproduction(chosen, "go on").stages:
        for path in stage.inputs:
            known = made | {each.parent for each in made}
            beside = path.name == "trajectories.jsonl" or path.parent == chosen.place("data")
            assert path in known or (beside and path.parent in known), (stage.name, path)
        made |= set(stage.outputs)


@pytest.mark.parametrize("system", paper_systems())
def test_baselines_compose_with_their_own_keys(setting, tmp_path, monkeypatch, system):
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://127.0.0.1:1/v1")
    for model in read_paper(system).models:
        for stage in reproduction(setting(system, recipe=model.recipe), "go on").stages:
            for words in words_of(stage.command, tmp_path) if stage.command else ():
                agent = baseline_of(words)
                if agent is not None:
                    recipe, overrides = overrides_of(words)
                    planned = PlannedRun.of(play_config(recipe, agent, overrides))
                    assert planned.system.name == agent.value
                    assert planned.section.judge.kind == "rule"
                    assert list(check_second_ranking(planned)) == []


def test_a_wrong_field_is_named():
    values = yaml.safe_load((ROOT / FOLDER / "vrag_rl.yaml").read_text(encoding="utf-8"))
    with pytest.raises(UserError, match=r"vrag\.yaml\.rl\.questions"):
        parse_paper({**values, "rl": {"questions": "many"}}, "vrag.yaml")
    questions = {"x": {"download": "nowhere", "use": "test"}}
    with pytest.raises(UserError, match="has no download nowhere"):
        parse_paper({**values, "questions": questions}, "vrag.yaml")


def test_an_option_that_is_not_there_would_be_noticed():
    with pytest.raises(Exception, match="No such option: --nothing"):
        parse(get_command(app), ["docagent-rl", "data", "curate", "x", "--out", "y", "--nothing"])


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("system", paper_systems())
def test_overrides_compose_and_batches_divide(setting, tmp_path, monkeypatch, system, gpus):
    from docagent_rl.checks.recipe_check import check_overridden

    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://127.0.0.1:1/v1")
    seen = set()
    manifest = read_paper(system)
    for (beginning, miniature), model in itertools.product(
        (("scratch", False), ("scratch", True), ("weights", False)), manifest.models
    ):
        if beginning == "weights" and model.weights is None:
            continue
        chosen = setting(system, beginning, gpus, recipe=model.recipe, miniature=miniature)
        if gpus <= 4:  # of MM-Doc-R1's one question of four trajectories
            chosen = replace(chosen, literal=chosen.has_literal and not miniature)
        for stage in reproduction(chosen, "go on").stages:
            for words in words_of(stage.command, tmp_path) if stage.command else ():
                found = overrides_of(words)
                if found is None or baseline_of(words) or (found[0], *found[1]) in seen:
                    continue
                seen.add((found[0], *found[1]))
                finding = check_overridden(*found)
                assert finding.problem is None, finding
