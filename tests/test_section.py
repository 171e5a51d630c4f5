from __future__ import annotations

from docagent_rl.section import filled


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
