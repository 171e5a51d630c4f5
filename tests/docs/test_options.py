"""Commands, options and tables of pages agree with the code."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from docagent_rl import cli
from docagent_rl.checkpoints.file_status import VERDICTS
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.collect.collection import FUNNEL, KEPT
from docagent_rl.lab.collect.config import CollectConfig, preset_names
from docagent_rl.lab.collect.filters import Filter
from docagent_rl.lab.collect.rules import AgentKind
from docagent_rl.lab.eval.choices import Agent, ProbeCondition
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig
from docagent_rl.lab.generate.draft import DropStage

DOCS = Path(__file__).parents[2] / "docs"
COLLECT, DOCUMENTS, EVALUATION, OWN_DATA, PROBING, REPORT, SERVICE = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for name in (
        *("collect", "documents", "evaluation", "own_data", "probing"),
        "report",
        "retrieval/service",
    )
)
GENERATE = OWN_DATA.partition("\n## Questions written by a model\n")[2].partition("\n## ")[0]
OPTION = r"(?<![\w-])--[a-z][a-z-]+"


def options(*command: str) -> set[str]:
    shown = CliRunner().invoke(cli.app, [*command, "--help"], env={"COLUMNS": "250"}).output
    return set(re.findall(OPTION, shown))


def first_cells(page: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "count"),
    [(COLLECT, 3), (DOCUMENTS, 6), (EVALUATION, 2), (OWN_DATA, 16)],
)
def test_commands_have_the_options_that_are_shown(page, count):
    blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    joined = "".join(blocks).replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.startswith("docagent-rl ")]
    assert len(lines) >= count
    for line in lines:
        _, name, *rest = shlex.split(line, comments=True)
        command = (name, rest[0]) if name in ("data", "index", "store") else (name,)
        assert {word for word in rest if word.startswith("--")} <= options(*command), line
        if name in ("eval", "collect"):
            assert rest[0] in recipe_names()


@pytest.mark.parametrize(
    ("told", "commands"),
    [
        (GENERATE, [("data", name) for name in ("generate", "convert", "show")]),
        (
            " ".join(re.findall(r"`docagent-rl (?:probe|rescore) ([^`]*)`", PROBING)),
            [("probe",), ("rescore",)],
        ),
        (" ".join(re.findall(r"`(--[a-z-]+)", REPORT)), [("report",)]),
    ],
)
def test_options_that_are_named_are_there(told, commands):
    found = set(re.findall(OPTION, told))
    assert found
    assert found <= set.union(*(options(*command) for command in commands))


def test_the_configuration_of_a_collection_is_one_and_all_it_knows_is_named():
    (text,) = re.findall(r"```yaml\n(.*?)```", COLLECT, re.DOTALL)
    config = CollectConfig.model_validate(yaml.safe_load(text))
    assert config.trajectories == 3
    assert set(yaml.safe_load(text)) | {"source", "departures", "systems"} == set(
        CollectConfig.model_fields
    )
    kinds = [kind.model_fields["kind"].default for kind in get_args(get_args(Filter)[0])]
    for name in (
        *kinds,
        *preset_names(),
        *(who.value for who in AgentKind),
        KEPT,
        FUNNEL,
        VERDICTS,
    ):
        assert f"`{name}`" in COLLECT


def test_every_agent_and_condition_is_described():
    assert first_cells(EVALUATION) == [agent.value for agent in Agent]
    assert first_cells(PROBING) == [each.value for each in ProbeCondition]


def test_configurations_and_stages_of_question_generation():
    blocks = dict(re.findall(r"```yaml\n# (\w+)\n(.*?)```", GENERATE, re.DOTALL))
    config = GenerateConfig.model_validate(yaml.safe_load(blocks["config"]))
    assert (config.temperature, config.filters) == (
        GenerateConfig().temperature,
        GenerateConfig().filters,
    )
    endpoint, defaults = (
        ModelConfig.model_validate(yaml.safe_load(blocks["endpoint"])),
        ModelConfig(),
    )
    assert endpoint.named
    for name in ("concurrency", "max_tokens", "temperature", "timeout_s", "extra_body"):
        assert getattr(endpoint, name) == getattr(defaults, name)
    table = GENERATE[GENERATE.index("| stage |") : GENERATE.index("Answers are compared")]
    assert re.findall(r"^\| ([a-z][^|]*?) \|", table, re.MULTILINE)[1:] == [
        stage.value for stage in DropStage
    ]
    assert all(kind.value in blocks["config"] for kind in EvidenceKind)
