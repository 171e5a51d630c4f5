"""The description of a system, and its agents without a model."""

import dataclasses

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.script import Move, Script
from docagent_rl.envs.scripted_agent import ScriptedAgent
from docagent_rl.envs.system import System
from docagent_rl.systems import SYSTEMS, get_system


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_published_system_has_agents_without_a_model(name):
    system = get_system(name)
    config = system.parse_config({})
    agent = system.make_agent(config)
    assert isinstance(agent, ScriptedAgent)
    assert agent.config is config
    assert system.script is not None
    assert issubclass(system.script, Script)
    assert system.script.title == agent.title
    assert Move.SEARCH in agent.tags


def test_a_system_of_one_s_own_may_have_none():
    system = dataclasses.replace(get_system("alden"), name="mine", agents=None)
    assert system.script is None
    with pytest.raises(UserError, match="system 'mine' has no scripted agent"):
        system.make_agent(system.parse_config({}))


def test_a_module_without_agents_is_one_that_plays_nothing():
    system = dataclasses.replace(get_system("alden"), agents="docagent_rl.envs.outcome")
    assert system.script is None
    with pytest.raises(UserError, match="a module that defines AGENT"):
        system.make_agent(system.parse_config({}))
    gone = dataclasses.replace(system, agents="docagent_rl.systems.gone")
    with pytest.raises(UserError, match=r"system 'alden' cannot be imported"):
        gone.make_agent(gone.parse_config({}))


def test_a_system_is_as_plain_as_it_says_nothing_else():
    alden = get_system("alden")
    given = {"name", "summary", "config_type", "env", "make_grammar", "prompt_spec"}
    plain = System(**{name: getattr(alden, name) for name in given})
    assert not any((plain.judged, plain.cites, plain.several_rows, plain.two_rankings(None)))
    assert plain.shows_images
    assert (plain.roles, plain.small, plain.padding) == ((), {}, {})
    config = plain.parse_config({})
    assert plain.max_turns(config) == config.assistant_turns
    assert plain.parse_config(config) is config
