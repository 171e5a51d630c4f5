"""The pages that an answer rests on."""

import io
import re

import pytest
from rich.console import Console

from docagent_rl.lab.agents.scripted import ScriptPlayer
from docagent_rl.lab.eval.ask.answer import EvidenceReason, answer_report, print_turn
from docagent_rl.rollout.recorder import listening, new_trajectory
from docagent_rl.rollout.trajectory import MaskReason, Status, TrajectoryTurn
from docagent_rl.samples.sample import Sample, Split
from tests.lab.agents.stage import resources

SAMPLE = Sample("q", "ask", Split.TEST, "d", "Where?", ("x",))
HALF = (0.1, 0.2, 0.3, 0.4)


def trajectory(*infos, system="vrag_rl", dropped=()):
    trajectory = new_trajectory(SAMPLE, 0, system)
    trajectory.status = Status.FINISHED.value
    for number, info in enumerate(infos):
        turn = TrajectoryTurn("t", "end_of_turn", [], [], info=info, dropped=number in dropped)
        trajectory.turns.append(turn)
    return trajectory


def act(kind, effect=None, **action):
    effect = effect or {"kind": kind}
    return {"action": {"kind": kind, **action}, "executed": True, "effect": effect}


def pages(*numbers):
    return act(
        "search", {"kind": "pages", "pages": [{"page": f"d#{number}"} for number in numbers]}
    )


def crop(page, *region, **more):
    return act("crop", {"kind": "crop", "page": f"d#{page}", "region": list(region), **more})


SAY = act("answer", text="there")
WHOLE = (0, 0, 1, 1)
STACK = [list(HALF), [0, 0, "x", 1], [0.5, 0.5, 1, 1]]


@pytest.mark.parametrize(
    ("turns", "evidence"),
    [
        # the pages shown last
        (
            (pages(4), pages(7, 8), SAY),
            [(7, EvidenceReason.SHOWN, ()), (8, EvidenceReason.SHOWN, ())],
        ),
        # magnified parts tell more, the last most
        (
            (pages(4), crop(4, *WHOLE), crop(4, *HALF), pages(9), crop(9, *WHOLE), SAY),
            [(9, EvidenceReason.MAGNIFIED, (WHOLE,)), (4, EvidenceReason.MAGNIFIED, (WHOLE, HALF))],
        ),
        # a stack of regions is several of them
        (
            (pages(4), crop(4, regions=STACK), SAY),
            [(4, EvidenceReason.MAGNIFIED, (HALF, (0.5, 0.5, 1.0, 1.0)))],
        ),
        # cited pages come before all
        (
            (pages(4), {**SAY, "relevant_pages": [2, 3]}),
            [(2, EvidenceReason.CITED, ()), (3, EvidenceReason.CITED, ())],
        ),
    ],
)
@pytest.mark.parametrize("system", ["doc_v_star", "unidoc_rl"])
def test_an_answer_rests_on_what_its_trajectory_was_shown(system, turns, evidence):
    found = answer_report(trajectory(*turns, system=system))
    assert found.text == "there"
    assert [(each.page.page, each.why, each.regions) for each in found.evidence] == evidence


def test_what_did_not_fit_was_not_seen():
    found = answer_report(trajectory(pages(4), pages(7), SAY, dropped={1}))
    assert [each.page.page for each in found.evidence] == [4]


def test_a_trajectory_without_an_answer_says_why():
    ended = trajectory(pages(4))
    ended.status, ended.end = Status.UNFINISHED.value, "turn_limit"
    assert "turn_limit" in answer_report(ended).why_not
    masked = trajectory()
    masked.status, masked.end, masked.error = (
        Status.MASKED.value,
        MaskReason.SAMPLE.value,
        "too long",
    )
    assert (answer_report(masked).text, answer_report(masked).why_not) == (None, "too long")


async def test_each_turn_is_printed_as_it_ends_with_its_thought(world):
    printed, lengths = io.StringIO(), []
    console = Console(file=printed, width=80)

    def listener(trajectory):
        lengths.append(len(trajectory.turns))
        print_turn(trajectory, console)

    player = ScriptPlayer(resources(world, "vrag_rl"))
    with listening(listener):
        played = await player.play(world.samples[0], 0)
    await player.play(world.samples[0], 1)  # nobody listens
    assert lengths == list(range(1, len(played.turns) + 1))
    thought, first, *_ = printed.getvalue().splitlines()
    assert f"<think>{thought}</think>" in played.turns[0].text
    assert re.match(r"1\. search .*  →  p\. \d", first)
    # a long one is cut wherever it is: many languages have no spaces
    turn = played.turns[-1]
    turn.text, turn.info = "\u4e2d" * 300, {**turn.info, "thoughts": [(0, 300)]}
    print_turn(played, Console(file=printed, width=1000))
    assert "\u4e2d" * 200 + " \u2026" in printed.getvalue()
