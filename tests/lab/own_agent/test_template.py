"""The folder that `init` writes: every choice is explained, and everything in it works."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.lab.collect.config import CollectConfig
from docagent_rl.lab.own_agent.own_agent import OwnAgent
from docagent_rl.lab.own_agent.own_stages import own_chain
from docagent_rl.lab.own_agent.project import FILE, OwnJudge, OwnTeacher, Project, read_project
from docagent_rl.lab.own_agent.recipe import tuned_recipes
from docagent_rl.lab.own_agent.retriever import retriever_names
from docagent_rl.lab.own_agent.template import DEFAULT_RECIPE, RUN, write_agent

ROOT = Path(__file__).parents[3]


def blocks(text: str) -> dict[str, str]:
    """The comments of each key of agent.yaml, before it and after it."""
    found = {}
    for block in text.split("\n\n"):
        lines = block.splitlines()
        keys = [line.partition(":")[0] for line in lines if re.match(r"\w+:", line)]
        for key in keys:
            found[key] = "\n".join(line for line in lines if line.startswith("#"))
    return found


def test_every_choice_is_there_and_its_comment_names_a_page(folder):
    text = (folder / FILE).read_text(encoding="utf-8")
    explained = blocks(text)
    assert set(yaml.safe_load(text)) == set(Project.model_fields) == set(explained)
    for key, comment in explained.items():
        pages = re.findall(r"docs/[\w/]+\.md", comment)
        assert pages, key
        assert all((ROOT / page).is_file() for page in pages), key
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(("key", "kind"), [("judge", OwnJudge), ("teacher", OwnTeacher)])
def test_a_section_that_is_commented_out_is_valid_without_its_marks(folder, key, kind):
    comment = blocks((folder / FILE).read_text(encoding="utf-8"))[key]
    lines = [line.removeprefix("#   ") for line in comment.splitlines() if line.startswith("#   ")]
    values = yaml.safe_load("\n".join(lines))
    assert set(values) == set(kind.model_fields)
    kind.model_validate(values)


def test_what_comments_name_exists(folder):
    explained = blocks((folder / FILE).read_text(encoding="utf-8"))
    named = set(
        re.findall(
            r"\b(?:\w*col\w+|bm25|minilm|hybrid|vdr_2b|qwen3_vl_2b)\b", explained["retriever"]
        )
    )
    assert named <= set(retriever_names())
    patterns = re.findall(r"\w+_7b|\w+_\*", explained["teacher"])
    tuned = [
        name
        for name in tuned_recipes()
        if any(re.match(p.replace("*", ""), name) for p in patterns)
    ]
    assert tuned == tuned_recipes()


def test_the_choices_that_are_written_are_those_of_the_defaults(folder):
    project = read_project(folder)
    given = Project(documents=project.documents, recipe=DEFAULT_RECIPE, profile="cpu")
    assert project == given
    assert own_chain(OwnAgent(project, 0, workspace=folder), "").stages


def test_the_filters_are_a_collection(folder):
    config = CollectConfig.load(str(folder / "collect.yaml"))
    assert [each.kind for each in config.filters] == ["format", "answer", "duplicates"]


def test_paths_are_seen_from_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my pdfs").mkdir()
    write_agent(Path("agents/mine"), Path("my pdfs"), DEFAULT_RECIPE, tiny=False)
    project = read_project(tmp_path / "agents" / "mine")
    assert project.documents == "../../my pdfs"
    assert project.profile is None


def test_the_script_runs_the_chain_from_anywhere_with_its_options(folder, tmp_path):
    program = tmp_path / "bin" / "docagent-rl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$PWD" "$@"\n')
    program.chmod(0o755)
    found = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(folder / RUN), "--dry-run"]
    done = subprocess.run(command, env=found, capture_output=True, text=True, check=True)
    assert done.stdout == f"{folder} run . --dry-run\n"


def test_nothing_of_the_user_is_overwritten(folder, tmp_path):
    before = (folder / FILE).read_bytes()
    with pytest.raises(UserError, match="is not empty"):
        write_agent(folder, tmp_path / "pdfs", DEFAULT_RECIPE, tiny=True)
    assert (folder / FILE).read_bytes() == before


def test_a_folder_is_only_written_with_documents_and_a_recipe(tmp_path):
    new = tmp_path / "new"
    with pytest.raises(UserError, match="--documents: there is no folder"):
        write_agent(new, tmp_path / "nowhere", DEFAULT_RECIPE, tiny=True)
    with pytest.raises(UserError, match="contains the agent's folder"):
        write_agent(new, tmp_path, DEFAULT_RECIPE, tiny=True)
    (tmp_path / "pdfs").mkdir()
    with pytest.raises(UserError, match="--recipe: there is no recipe 'vrag'"):
        write_agent(new, tmp_path / "pdfs", "vrag", tiny=True)
    assert not new.exists()
