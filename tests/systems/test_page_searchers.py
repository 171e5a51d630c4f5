"""The common behaviour of VRAG-RL and UniDoc-RL: they search a corpus of pages, magnify, and
answer.
"""

import re

import pytest

from docagent_rl.envs.base import EndReason, Role, TextPart
from docagent_rl.systems import get_system
from tests.systems.unidoc_rl.play import EVERY, NOTE, RIGHT

BOX = "<bbox>[100, 100, 300, 200]</bbox>"
# what brings a page into view that can be magnified
OPENED = {"vrag_rl": [EVERY], "unidoc_rl": [EVERY, "<select>2</select>"]}
TURNS = {
    ("vrag_rl", "paper"): 5,
    ("vrag_rl", "released"): 5,
    ("unidoc_rl", "paper"): 10,
    ("unidoc_rl", "released"): 11,
}


@pytest.fixture(params=TURNS, ids="-".join)
def played(request):
    return request.param


@pytest.fixture
def make(played, services):
    def make(*, validate=False, **settings):
        config = {"variant": played[1], **settings}
        return get_system(played[0]).make_env(config, services, validate=validate)

    return make


def said(*observations):
    parts = [part for seen in observations for message in seen.messages for part in message.parts]
    return "".join(part.text for part in parts if isinstance(part, TextPart))


async def test_the_prompt(played, make, make_sample):
    """The prompt is one user message; only the paper of VRAG-RL puts its rules into a system
    message.
    """
    prompt = await make().reset(make_sample())
    system = [Role.SYSTEM] if played == ("vrag_rl", "paper") else []
    assert [message.role for message in prompt.messages] == [*system, Role.USER]
    assert f"at most {TURNS[played]}" in said(prompt)
    assert said(prompt).endswith("What is the answer?")


async def test_the_last_turn_is_only_read_for_an_answer(played, make, make_sample, play):
    faults = ["none"] * (TURNS[played] - 2)
    state = await play(make(), make_sample(), [EVERY, *faults, EVERY, "never played"])
    assert len(state.results) == TURNS[played]
    last = state.results[-1]
    assert (last.end, last.record.executed) == (EndReason.TURN_LIMIT, False)
    assert last.record.effect.to_dict() == {"kind": "not_executed"}
    assert (state.metrics["searches"], state.metrics["finished"]) == (1, 0)
    assert state.metrics["turns"] == TURNS[played]
    answered = await play(make(), make_sample(), ["none", *faults, RIGHT])
    assert answered.results[-1].end is EndReason.ANSWERED


async def test_an_empty_answer_ends_and_is_not_judged(played, make, make_sample, play, judge):
    turns = [*OPENED[played[0]], f"{NOTE}<answer> \n</answer>"]
    state = await play(make(validate=True), make_sample(), turns)
    assert state.results[-1].end is EndReason.ANSWERED
    assert judge.asked == []
    assert (state.metrics["reward/outcome"], state.metrics["reward/format"]) == (0, 1)


@pytest.mark.parametrize("validate", [False, True])
async def test_padding_of_the_validation(played, make, make_sample, play, validate):
    turns = [*OPENED[played[0]], BOX]
    plain, padded = [
        (await play(make(crop={"pad_val": pad}, validate=validate), make_sample(), turns))
        .results[-1]
        .record.effect.to_dict()
        for pad in (None, 28)
    ]
    a, b = (effect.get("raster") or effect["rasters"][0] for effect in (plain, padded))
    assert (b[0] < a[0] < a[2] < b[2]) if validate else a == b
    # what is scored is what the policy drew
    assert plain.get("scored") == padded.get("scored")


@pytest.mark.parametrize(
    "box", ["200, 100, 100, 200", "9000, 9000, 9900, 9900", "0, 100, 700, 100.5", None]
)
async def test_boxes_that_cannot_be_cut(played, make, make_sample, play, box):
    turns = [*OPENED[played[0]], f"<bbox>[{box}]</bbox>"] if box else [BOX]
    state = await play(make(), make_sample(), turns)
    result, metrics = state.results[-1], state.metrics
    assert result.observation.images == ()
    assert (result.record.valid, result.record.reason) == (False, "bad_argument")
    assert (result.record.executed, metrics["crops"], metrics["invalid_actions"]) == (
        False,
        0,
        1,
    )


async def test_without_crop(played, make, make_sample, play):
    state = await play(make(grammar={"crop": False}), make_sample(), [*OPENED[played[0]], BOX])
    assert state.results[-1].record.reason == "no_action"
    told = said(state.prompt, state.results[-1].observation).lower()
    assert not re.search(r"bbox|magnif|zoom|boxes", told)


async def test_surplus_actions_are_counted_and_not_executed(make, make_sample, play):
    state = await play(make(), make_sample(), [f"{EVERY}<search>pagem1</search>{RIGHT}"])
    assert not state.results[0].done
    assert (state.metrics["surplus_actions"], state.metrics["searches"]) == (2, 1)
    assert [action["kind"] for action in state.results[0].record.to_dict()["surplus"]] == [
        "search",
        "answer",
    ]


@pytest.mark.parametrize(
    ("scope", "kind"), [("document", "no_new_page"), ("corpus", "candidates|pages")]
)
async def test_scope(make, make_sample, play, scope, kind):
    state = await play(make(search={"scope": scope}), make_sample(), ["<search>pagem7</search>"])
    assert re.fullmatch(kind, state.results[0].record.effect.to_dict()["kind"])


async def test_a_turn_that_did_not_fit_has_led_to_nothing(played, make, make_sample, play):
    """A dropped last observation gives the same score as a fault in that turn."""
    gold = make_sample(evidence_boxes={3: ((0.1, 0.1, 0.4, 0.4),)})
    script = [*OPENED[played[0]], BOX, f"{NOTE}{EVERY}", *OPENED[played[0]][1:], BOX]
    for cut in range(1, min(len(script) + 1, TURNS[played])):
        dropped = await play(make(), gold, script[:cut], drop_last=True)
        faulty = [*script[: cut - 1], re.sub("<(search|select|bbox)>", "", script[cut - 1])]
        without = await play(make(), gold, faulty)
        assert dropped.terms == await without.env.conclude(EndReason.CONTEXT_FULL)
        names = {
            "pages_seen",
            "retrieval_recall",
            "crops",
            "images",
            "boxes",
            "selections",
            "image_tokens",
        }
        for name in names & dropped.metrics.keys():
            assert dropped.metrics[name] == without.metrics[name], name
        assert (dropped.metrics["context_full"], dropped.metrics["finished"]) == (1, 0)
