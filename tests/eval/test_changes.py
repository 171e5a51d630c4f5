"""What a run sets otherwise than its recipe."""

import pytest
from omegaconf import OmegaConf

from docagent_rl.eval.changes import changes_of

SERVED, MODEL = {"answer": {"base_url": "http://x/v1", "model": "m"}}, {"answer": {"model": "m"}}


def run_of(env=(), roles=(), turn=512, **more):
    section = {
        "system": "alden",
        "env": dict(env),
        "roles": dict(roles),
        "rollout": {"turn_tokens": turn},
        **more,
    }
    places = {"workspace": "w", "store": "w/store", "run_dir": "w/run", "retriever": {"index": "w/index"}}
    data = {"max_prompt_length": 1024, "max_response_length": 9216}
    return OmegaConf.create({"docagent": {**section, **places}, "data": data})


@pytest.mark.parametrize(
    ("run", "recipe", "changes"),
    [
        # the variant's value and the same value written out are no change
        ({"env": {"max_turns": None}}, {"env": {"max_turns": 6}}, {}),
        # nor what is told elsewhere
        ({"env": {"display": {"min_pixels": 50176}, "reward": {"calls": False}}}, {}, {}),
        ({"roles": SERVED}, {"roles": MODEL}, {}),
        (
            {
                "env": {"fetch": False, "search": {"top_k": 3}},
                "roles": {"answer": {"backend": "embedded"}},
                "turn": 64,
            },
            {},
            {
                "docagent.env.fetch": False,
                "docagent.env.search.top_k": 3,
                "docagent.roles.answer.backend": "embedded",
                "docagent.rollout.turn_tokens": 64,
            },
        ),
    ],
)
def test_changes_are_told_by_key(run, recipe, changes):
    assert changes_of(run_of(**run), run_of(**recipe)) == changes


def test_a_profile_changes_what_it_lies_over():
    assert changes_of(run_of(profile="cpu"), run_of())["docagent.env.max_turns"] == 5
