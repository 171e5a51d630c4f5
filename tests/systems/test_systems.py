from __future__ import annotations

import subprocess
import sys

import pytest

from docagent_rl.errors import UserError
from docagent_rl.systems import SYSTEMS, System, get_system
from docagent_rl.systems.vrag_rl.actions import VragGrammar
from docagent_rl.systems.vrag_rl.config import VragConfig


def test_every_system_can_be_loaded():
    for name in SYSTEMS:
        system = get_system(name)
        assert isinstance(system, System)
        assert system.name == name
        config = system.parse_config({})
        assert system.load_prompt(config).digest
        assert system.max_turns(config) >= 1
        assert system.max_images(config) >= 0


def test_vrag_rl():
    system = get_system("vrag_rl")
    config = system.parse_config(
        {"variant": "released", "grammar": {"crop": False}, "search": {"pages_per_search": 2}}
    )
    assert isinstance(config, VragConfig)
    assert system.parse_config(config) is config
    grammar = system.make_grammar(config)
    assert isinstance(grammar, VragGrammar)
    assert grammar.tags == ("search", "answer")
    assert (system.max_turns(config), system.max_images(config)) == (5, 8)
    assert "released" in system.load_prompt(config).source
    assert "paper" in system.load_prompt(config, "vrag_rl_paper").source


def test_unknown_names_list_the_known():
    with pytest.raises(UserError, match=r"'alpha'.*vrag_rl"):
        get_system("alpha")


@pytest.mark.parametrize(
    "path",
    [
        "no_such_module:SYSTEM",
        "docagent_rl.systems:NOTHING",
        ":x",
        "docagent_rl:",
        "docagent_rl.systems:SYSTEMS",
    ],
)
def test_paths_that_lead_nowhere(path):
    with pytest.raises(UserError, match=path):
        get_system(path)


def test_a_system_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_systems.py").write_text(
        "import dataclasses\n"
        "from docagent_rl.systems import get_system\n"
        "MINE = dataclasses.replace(get_system('vrag_rl'), name='mine')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert get_system("my_systems:MINE").name == "mine"


def test_mistakes_are_named_with_their_key():
    with pytest.raises(UserError) as error:
        get_system("vrag_rl").parse_config({"display": {"snapp": True}, "max_turns": "many"})
    assert "docagent.env.display.snapp" in str(error.value)
    assert "docagent.env.max_turns" in str(error.value)


def test_a_bad_prompt_is_named(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("user: hi")
    with pytest.raises(UserError, match=r"p\.yaml"):
        get_system("vrag_rl").load_prompt({}, path)


@pytest.mark.slow
def test_environments_need_neither_verl_nor_torch():
    code = (
        "import sys; import docagent_rl.systems as s; s.get_system('vrag_rl').parse_config({}); "
        "print([m for m in ('verl', 'torch', 'ray', 'openai', 'vllm') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
