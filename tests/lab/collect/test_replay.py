"""Released dialogues in the real environment of UniDoc-RL."""

import re

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.display import DisplayRule
from docagent_rl.lab.collect.dialogues import DialogueError, read_dialogue
from docagent_rl.lab.collect.replay import BoxRewriter, ReplayPlayer
from docagent_rl.lab.collect.rules import BoxFrame, Rejection
from tests.lab.agents.stage import resources
from tests.lab.collect.released import dialogue, image, listed, pages_of, row

BOX = re.compile(r"\[\[(.*)\]\]")


async def replayed(world, values, frame=BoxFrame.NORM1000, **env):
    found = read_dialogue(values, "sft#000000", 0)
    sizes = {"max_turns": 10, "image_limit": 22, **env}
    shared = resources(world, "unidoc_rl", judge={"kind": "exact"}, env_cpu=sizes)
    player = ReplayPlayer(shared, {"sft#000000": found}, "digest", frame)
    return await player.play(found.sample, 0)


async def rejected(world, values, frame=BoxFrame.NORM1000, **env):
    with pytest.raises(DialogueError) as caught:
        await replayed(world, values, frame, **env)
    return caught.value.reason


async def test_a_dialogue_plays_with_its_own_pages_and_boxes_of_the_environment(world):
    trajectory = await replayed(world, dialogue(world))
    refs = pages_of(world, 6)
    turns = trajectory.turns
    assert (trajectory.end, len(turns)) == ("answered", 6)
    shown = [[view.page for view in turn.record.effect.views] for turn in turns]
    assert shown == [refs[:3], [refs[1]], [refs[1]], refs[3:], [refs[3]], []]
    # thousandths of the page, wherever it is shown
    region = turns[2].record.effect.views[0].regions[0]
    assert region == pytest.approx((0.1, 0.2, 0.5, 0.4), abs=0.05)
    # in the thought as in the action; four numbers that are no box stay
    drawn = BOX.search(turns[2].text)[1]
    assert f"It is at [{drawn}]." in turns[2].text
    assert "[2015, 2016, 2017, 2018]" in turns[0].text
    assert [part for message in trajectory.prompt for part in message["parts"]]


async def test_boxes_in_pixels_are_those_of_the_release(world):
    size = world.store.page(pages_of(world, 2)[1]).size
    width, height = DisplayRule(snap=False).shown(size)
    box = f"[[0, 0, {width // 2}, {height // 2}]]"
    values = dialogue(world, box=box)
    trajectory = await replayed(world, values, BoxFrame.DISPLAYED)
    region = trajectory.turns[2].record.effect.views[0].regions[0]
    assert region == pytest.approx((0, 0, 0.5, 0.5), abs=0.05)
    beyond = dialogue(world, box=f"[[0, 0, {width + 1}, 10]]")
    assert await rejected(world, beyond, BoxFrame.DISPLAYED) is Rejection.OUTSIDE


@pytest.mark.parametrize(
    ("changes", "env", "reason"),
    [
        ({"box": "[[500, 200, 100, 400]]"}, {}, Rejection.OUTSIDE),
        ({"box": "nothing"}, {}, Rejection.FAULTY),
        ({}, {"max_turns": 5}, Rejection.UNFINISHED),
        ({}, {"search": {"candidates": 2}}, Rejection.OTHER_PAGES),
    ],
)
async def test_a_dialogue_that_does_not_play_has_its_reason(world, changes, env, reason):
    assert await rejected(world, dialogue(world, **changes), **env) is reason


async def test_another_page_than_the_selected_one_is_a_reason(world):
    refs = pages_of(world, 2)
    texts = [
        "<search>a</search>", listed(2), "<select>0</select>", "<image>", "<answer>b</answer>",
    ]  # fmt: skip
    right = row(texts, [image(refs[0]), image(refs[1]), image(refs[0])])
    assert (await replayed(world, right)).end == "answered"
    other = row(texts, [image(refs[0]), image(refs[1]), image(refs[1])])
    assert await rejected(world, other) is Rejection.OTHER_PAGES
    lost = row(texts, [image(refs[0]), "deck_1.jpg", image(refs[0])])
    assert await rejected(world, lost) is Rejection.NOT_STORED


def test_a_box_keeps_its_place_in_other_units():
    rewriter = BoxRewriter((1000, 1000), (500, 200))
    text = "<think>[1, 2, 3]</think><bbox>[[0, 0, 1000, 1000], [100, 150, 301, 450]]</bbox>"
    written = "<think>[1, 2, 3]</think><bbox>[[0, 0, 500, 200], [50, 30, 151, 90]]</bbox>"
    assert rewriter.rewrite(text) == written


async def test_dialogues_of_another_system_are_refused(world):
    with pytest.raises(UserError, match="vrag_rl"):
        ReplayPlayer(resources(world, "vrag_rl"), {}, "digest", BoxFrame.NORM1000)
