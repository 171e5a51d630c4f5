import json
import math
import re
from copy import deepcopy

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.config import TextConfig
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, Message, Observation, Role, TextPart
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.outcome import Outcome
from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest
from docagent_rl.rollout.trajectory import (
    Status,
    Trajectory,
    TrajectoryTurn,
    describe_messages,
    filled_line,
    line_of,
    read_trajectories,
    whole_line,
)


def trajectory() -> Trajectory:
    odd = 'half \ud83d, "trainer_log_probs": null, \u00e4'
    turns = [
        TrajectoryTurn(
            odd, "end_of_turn", [1, 2], [-0.1, -0.2], info={"trainer_log_probs": None, odd: 1}
        ),
        TrajectoryTurn("", "truncated", [], [], row=1, terms={"a": np.float32(0.5)}),
        TrajectoryTurn(
            "c", "end_of_turn", [3], [float("-inf")], observation=[{"parts": [{"text": odd}]}]
        ),
    ]
    return Trajectory(
        "u",
        3,
        4,
        "train",
        {"question_id": "q", "x": odd},
        "mine",
        status=Status.FINISHED.value,
        turns=turns,
    )


def test_a_line_is_the_samples_own() -> None:
    assert whole_line(line_of(trajectory())).decode() == trajectory().to_json()
    nothing = Trajectory("u", 0, 1, "val", {}, "")
    assert whole_line(line_of(nothing)).decode() == nothing.to_json()


def test_holes_take_the_trainers_log_probs() -> None:
    made = trajectory()
    values = [np.array([-0.1, -1e-7]), None, np.array([float("nan")])]
    text = b"".join(filled_line(line_of(made), values)).decode()
    wanted = deepcopy(made)
    for turn, own in zip(wanted.turns, values, strict=True):
        turn.trainer_log_probs = None if own is None else own.tolist()
    assert repr(json.loads(text)) == repr(json.loads(wanted.to_json()))


def test_numbers_come_back_as_they_were() -> None:
    made = Trajectory("u", 0, 1, "train", {}, "", turns=[TrajectoryTurn("", "", [1], [])])
    values = np.float32(-(np.random.default_rng(3).exponential(3, 500) ** 9)).astype(np.float64)
    read = json.loads(b"".join(filled_line(line_of(made), [values])))
    assert read["turns"][0]["trainer_log_probs"] == values.tolist()


def test_one_value_a_turn() -> None:
    with pytest.raises(ValueError, match="zip"):
        list(filled_line(line_of(trajectory()), [None]))


def test_numbers_are_there_and_tokens_are_not() -> None:
    turn = TrajectoryTurn(
        "short", "end_of_turn", list(range(1000)), [-0.5] * 1000, reward=0.25, terms={"a": 1.0},
        row=1,
        token_terms=[("a", 0, 2, 0.5)], observation=[{"parts": [{"text": "shown " * 9000}]}],
    )  # fmt: skip
    made = Trajectory(
        "u", 3, 4, "train", {"question_id": "q"}, "mine", status=Status.MASKED.value, turns=[turn],
        end="sample", error="half \ud83d", metrics={"a": math.inf}, attempts=2,
        image_preprocessings=7,
    )  # fmt: skip
    text = TrajectoryDigest.of(made).to_json()
    assert len(text) < 620
    read = TrajectoryDigest.from_json(text)
    assert read.masked
    assert (read.question_id, read.error) == ("q", "half ?")
    assert read.metrics == {"a": math.inf}
    assert read.turns == [TurnDigest(1, 1000, 0.25, {"a": 1.0}, [["a", 0, 2, 0.5]], "short")]


@pytest.mark.parametrize("score", [0.75, 0.0, None])
def test_an_outcome_comes_back_as_it_was(score) -> None:
    made = Trajectory("u", 0, 1, "val", {}, "", outcome=Outcome.of(score))
    assert Trajectory.from_json(made.to_json()).outcome == made.outcome
    assert Trajectory.from_json(whole_line(line_of(made))).outcome == made.outcome
    assert made.evidence.outcome is Outcome.of(score).state
    digest = TrajectoryDigest.from_json(TrajectoryDigest.of(made).to_json())
    assert digest.evidence == (None, None, Outcome.of(score).state, None)


def test_an_outcome_that_contradicts_itself_is_no_trajectory() -> None:
    line = Trajectory("u", 0, 1, "val", {}, "", outcome=Outcome.of(1.0)).to_json()
    with pytest.raises(UserError, match=r"outcome.*is not wrong"):
        Trajectory.from_json(line.replace('"right"', '"wrong"'))
    with pytest.raises(UserError, match="outcome"):
        Trajectory.from_json(line.replace('{"state": "right", "score": 1.0}', "1.0"))


def test_a_digest_has_the_texts_that_trajectories_are_compared_by() -> None:
    texts = (" first ", "", "second", "answer\n")
    infos = ({"text": "written"}, {}, {}, {"text": 7})
    turns = [
        TrajectoryTurn(text, "", [1], [], info=info)
        for text, info in zip(texts, infos, strict=True)
    ]
    made = Trajectory("u", 0, 1, "train", {}, "", turns=turns)

    def compared(**config: object) -> tuple[str, list[str]]:
        found = TrajectoryDigest.of(made, TextConfig(**config))
        return found.text, [turn.text for turn in found.turns]

    assert compared(include_answer=True) == (
        "first\nsecond\nanswer",
        ["first", "", "second", "answer"],
    )
    assert compared(include_answer=False) == ("first\nsecond", ["first", "", "second", "answer"])
    own = ["written", "", "second", "answer"]  # what is no text is left out
    assert compared(source="environment", include_answer=True) == ("first\nsecond\nanswer", own)
    made.text = ""
    assert compared(source="environment", include_answer=True) == ("", own)
    assert TrajectoryDigest.of(made) == TrajectoryDigest.of(made, TextConfig())


def test_a_digest_is_read_as_it_was_written() -> None:
    made = TrajectoryDigest.of(trajectory())
    read = TrajectoryDigest.from_json(made.to_json())
    assert read.evidence == made.evidence == (None, None, None, None)
    assert not read.masked
    assert [turn.sampled for turn in read.turns] == [2, 0, 1]
    assert "\u00e4" in made.to_json()  # as it is, not escaped


def test_tokens_are_counted_by_their_ids_or_as_an_endpoint_says() -> None:
    assert TrajectoryTurn("", "", [1, 2], [], completion_tokens=9).sampled == 2
    assert TrajectoryTurn("", "", [], [], completion_tokens=9).sampled == 9
    assert TrajectoryTurn("", "", [], []).sampled == 0


def test_seconds_are_of_searches_that_were_asked() -> None:
    def searched(retriever: str, seconds: float, tries: int) -> dict[str, object]:
        return {"retriever": retriever, "seconds": seconds, "tries": tries}

    made = trajectory()
    made.turns[0].searches = [searched("a", 0.5, 1), searched("a", 0.25, 0), searched("b", 2.0, 3)]
    made.turns[2].searches = [searched("a", 1.0, 2)]
    assert made.search_s == {"a": [0.5, 1.0], "b": [2.0]}


def test_a_line_of_something_else_names_its_first_field() -> None:
    good = json.loads(trajectory().to_json())
    assert Trajectory.from_json(json.dumps(good)).question_id == "q"
    assert Trajectory("u", 0, 1, "val", {}, "").question_id is None
    wrong = {
        "turns.0.token_ids.1": {**good, "turns": [{**good["turns"][0], "token_ids": [1, "2"]}]},
        "number": {**good, "number": "3"},
        "more": {**good, "more": 1},
        "version": {**good, "version": 2},
        "its line": 7,
    }
    for name, value in wrong.items():
        with pytest.raises(UserError, match=rf"^not a trajectory: .*{re.escape(name)}"):
            Trajectory.from_json(json.dumps(value))
    del good["system"]
    with pytest.raises(UserError, match=r"^not a trajectory: system: "):
        Trajectory.from_json(json.dumps(good))
    with pytest.raises(UserError, match=r"^not a trajectory: its line: "):
        Trajectory.from_json("{")


def test_files_are_read_line_by_line(tmp_path) -> None:
    path = tmp_path / "1.jsonl"
    with pytest.raises(UserError, match=r"1\.jsonl: no such trajectory file"):
        list(read_trajectories(path))
    line = trajectory().to_json()
    path.write_text(f"{line}\n\n  \n{line}\n")
    assert len(list(read_trajectories(str(path)))) == 2
    path.write_text(f"{line}\n\n{{\n")
    lines = read_trajectories(path)
    assert next(lines).uid == "u"
    with pytest.raises(UserError, match=r"1\.jsonl, line 3: not a trajectory"):
        next(lines)


def test_what_has_no_form_in_json_is_refused() -> None:
    made = Trajectory("u", 0, 1, "val", {}, "", metrics={"a": np.float32(0.5), "b": Status.MASKED})
    assert json.loads(made.to_json())["metrics"] == {"a": 0.5, "b": "masked"}
    made.metrics = {"a": object()}
    with pytest.raises(TypeError, match="object cannot be written to a trajectory"):
        made.to_json()


def test_a_masked_trajectory_says_so() -> None:
    made = trajectory()
    assert not made.masked
    made.status = Status.MASKED.value
    assert made.masked


def test_observations_are_described_with_images_by_reference() -> None:
    image = ImageRef(PageRef("d", 3), "hash", (0, 0, 9, 9), (9, 9))
    parts = (TextPart("Page:"), ImagePart(image))
    shown = Observation((Message(Role.SYSTEM, parts[:1]), Message(Role.TOOL, parts)))
    assert describe_messages(shown) == [
        {"role": "system", "parts": [{"text": "Page:"}]},
        {"role": "tool", "parts": [{"text": "Page:"}, {"image": image.to_dict()}]},
    ]


def test_one_number_that_is_none_is_written_among_others() -> None:
    made = Trajectory("u", 0, 1, "train", {}, "", turns=[TrajectoryTurn("", "", [1, 2], [])])
    read = json.loads(b"".join(filled_line(line_of(made), [np.array([-0.5, float("-inf")])])))
    assert read["turns"][0]["trainer_log_probs"] == [-0.5, float("-inf")]


def test_a_new_trajectory_has_counted_nothing():
    new = Trajectory("u", 0, 1, "train", {}, "vrag_rl")
    counts = new.image_preprocessings, new.image_loads, new.prefill_new, new.prefill_computed
    tokens = new.prompt_tokens, new.response_tokens
    assert (counts, tokens, new.attempts, new.reward) == ((0, 0, 0, 0), (0, 0), 1, 0.0)
