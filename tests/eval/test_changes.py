"""What a run sets otherwise than its recipe."""

from omegaconf import OmegaConf

from docagent_rl.eval.changes import changes_of


def run(env, roles=None, turn=512, **more):
    section = {"system": "alden", "env": env, "roles": roles or {}, "rollout": {"turn_tokens": turn}, **more}
    places = {"workspace": "w", "store": "w/store", "run_dir": "w/run", "retriever": {"index": "w/index"}}
    return OmegaConf.create(
        {
            "docagent": {**section, **places},
            "data": {"max_prompt_length": 1024, "max_response_length": 9216},
        }
    )


def test_a_run_of_its_recipe_changes_nothing():
    # the variant's value and the same value written out are no change
    assert changes_of(run({"max_turns": None}), run({"max_turns": 6})) == {}


def test_what_is_told_elsewhere_is_left_out():
    env = {"display": {"min_pixels": 50176}, "reward": {"calls": False}}
    assert changes_of(run(env), run({})) == {}


def test_an_endpoint_of_a_role_is_no_change():
    served = {"answer": {"base_url": "http://x/v1", "model": "m"}}
    assert changes_of(run({}, served), run({}, {"answer": {"model": "m"}})) == {}


def test_a_profile_changes_what_it_lies_over():
    assert changes_of(run({}, profile="cpu"), run({}))["docagent.env.max_turns"] == 5


def test_changes_are_told_by_key():
    roles = {"answer": {"backend": "embedded"}}
    found = changes_of(run({"fetch": False, "search": {"top_k": 3}}, roles, turn=64), run({}))
    assert found == {
        "docagent.env.fetch": False,
        "docagent.env.search.top_k": 3,
        "docagent.roles.answer.backend": "embedded",
        "docagent.rollout.turn_tokens": 64,
    }
