"""What the configurations of all systems have in common."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.systems import SYSTEMS, get_system

VARIANTS = [(name, "paper") for name in SYSTEMS] + [
    (n, "released") for n in ("alden", "unidoc_rl", "vrag_rl")
]
NULLS = {"variant": None, "prompt": None, "display": None}


def parse(name, **given):
    return get_system(name).parse_config(given)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_paper_is_the_default_and_null_means_left_out(name):
    config = parse(name)
    assert type(config).model_validate(NULLS) == config == type(config).for_variant("paper")
    with pytest.raises(ValidationError, match="variant"):
        config.variant = "paper"


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_survives_a_round_trip_through_json(name, variant):
    config = parse(name, variant=variant)
    assert type(config).model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"variant": "demo"}, "variant"),
        ({"rounds": 3}, "rounds"),
        ({"display": {"snapp": 1}}, r"display\.snapp"),
    ],
)
def test_mistakes_are_named_with_their_key(name, given, key):
    config = type(parse(name))
    with pytest.raises(ValidationError, match=key):
        config.model_validate(given)
