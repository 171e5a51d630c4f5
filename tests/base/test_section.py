from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import filled, merged
from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.systems import get_system


def test_given_keys_win_and_their_neighbours_stay():
    defaults = {"a": 1, "b": {"c": 2, "d": 3}, "e": {"f": 4}}
    given = {"b": {"c": 5}, "e": None, "g": {"h": 6}}
    assert filled(defaults, given) == {"a": 1, "b": {"c": 5, "d": 3}, "e": {"f": 4}, "g": {"h": 6}}
    assert defaults["b"] == {"c": 2, "d": 3}


def test_nulls_count_as_left_out_at_every_depth():
    assert filled({"a": {"b": 1}}, {"a": {"b": None, "c": None}}) == {"a": {"b": 1}}
    assert filled({}, {"a": {"b": None}}) == {"a": {}}


def test_a_mapping_over_a_plain_value_replaces_it():
    assert filled({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert filled({"a": {"b": 2}}, {"a": 1}) == {"a": 1}


def test_changes_go_over_what_they_change():
    base = {"a": 1, "b": {"c": 2, "d": 3}, "e": None}
    assert merged(base, {"b": {"c": 5}, "e": {"f": 4}, "a": 7}) == {
        "a": 7,
        "b": {"c": 5, "d": 3},
        "e": {"f": 4},
    }


def test_a_plain_value_in_the_place_of_a_section_is_refused_with_the_profile_too():
    assert merged({"a": False}, {"a": {"b": 1}}) == {"a": False}
    run = composed("doc_v_star_qwen2_5_vl_7b", ["+profile=cpu", "docagent.env.fetch=false"])
    parsed = DocAgentConfig.parse(plain(run.docagent))
    with pytest.raises(UserError, match=r"docagent\.env\.fetch: .*False"):
        get_system(parsed.system).parse_config(parsed.env)
