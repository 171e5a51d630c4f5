import json
from types import SimpleNamespace

import numpy as np
import pytest

from docagent_rl.lab.viewer.credit import trajectory_credit
from docagent_rl.lab.viewer.trajectory import trajectory_view
from docagent_rl.rollout.credit import CreditRow, write_credit
from tests.viewer_runs import BOX, GOLD, run_folder, trajectory


@pytest.fixture
def line(store):
    return json.loads(trajectory(store).to_json())


@pytest.fixture
def view(line, store):
    return trajectory_view(line, store=store)


def credit(number=0, row=0, **lists):
    return CreditRow(
        "group1", number, row, {name: np.asarray(values) for name, values in lists.items()}
    )


def images_of(messages):
    return [part for message in messages for part in message["parts"] if "image" in part]


def test_each_turn_says_what_was_done_and_found(view):
    search, invalid, _crop, answer = view["turns"]
    assert [turn["valid"] for turn in view["turns"]] == [True, False, True, True]
    assert search["hits"] == [
        {"page": "K#2", "rank": 1, "score": 2.5, "gold": False},
        {"page": GOLD, "rank": 2, "score": 2.0, "gold": True},
    ]
    assert search["spans"] == [
        {"kind": "thought", "begin": 7, "end": 14},
        {"kind": "action", "begin": 22, "end": 46},
        {"kind": "argument", "begin": 30, "end": 37},
    ]
    assert [span["kind"] for span in invalid["spans"]] == ["invalid", "argument"]
    assert (invalid["reason"], invalid["detail"]) == ("bad_argument", "the box is empty")
    assert search["seconds"] == {"generate": 0.5, "step": 0.25, "step/search": 0.2}
    assert (answer["reward"], view["stage"]) == (1.0, "right")


def test_images_are_numbered_and_placed_on_their_pages(view):
    (sheet,) = images_of(view["prompt"])
    assert [tile["page"] for tile in sheet["tiles"]] == ["K#1", "K#2", GOLD]
    assert sheet["tiles"][2]["at"] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert sheet["page"] is None
    page, crop = images_of(message for turn in view["turns"] for message in turn["observation"])
    assert [part["image"] for part in (sheet, page, crop)] == [0, 1, 2]
    assert page["box"] == [0, 0, 1, 1]
    assert crop["box"] == pytest.approx(BOX, abs=0.01)
    assert (crop["gold"], crop["gold_boxes"], view["images"]) == (True, [BOX], 3)


def test_the_path_through_the_document_is_marked_and_the_strip_is_to_scale(view):
    marked = {
        "gold": [3],
        "fetched": [],
        "searched": [2, 3],
        "shown": [1, 2, 3],
        "boxes": {"3": [BOX]},
    }
    assert view["document"] == [{"doc_id": "K", "pages": 5, **marked}]
    assert view["turns"][0]["strip"] == {"text": 10, "visual": 30, "sampled": 4}
    assert sum(view["prompt_strip"].values()) == 100


def test_evidence_in_further_documents_is_marked(line):
    line["sample"]["extra"] |= {"page_ids": [GOLD, "M#8"], "other_boxes": {"M#8": [BOX]}}
    line["turns"][2]["observation"][0]["parts"][0]["image"]["page"] = "M#8"
    view = trajectory_view(line)
    found = {each["doc_id"]: each["boxes"] for each in view["document"]}
    assert found == {"K": {"3": [BOX]}, "M": {"8": [BOX]}}
    shown = view["turns"][2]["observation"][0]["parts"][0]
    assert (shown["gold"], shown["gold_boxes"]) == (True, [BOX])


def test_tokens_have_texts_where_there_is_a_tokenizer(line):
    tokenizer = SimpleNamespace(decode=lambda ids, **_: f"<{ids[0]}>")
    tokens = trajectory_view(line, tokenizer=tokenizer)["turns"][0]["tokens"]
    assert tokens["texts"] == ["<5>", "<6>", "<7>", "<8>"]
    assert tokens["log_probs"] == [-0.1, -0.2, -0.3, -0.4]
    assert tokens["trainer_log_probs"][3] == -0.5
    assert tokens["advantages"] is None
    assert "tokens" not in trajectory_view(line, tokens=False)["turns"][0]


def test_tokens_have_what_they_were_credited_with(line, tmp_path):
    line["turns"][2]["row"] = line["turns"][3]["row"] = 1
    rows = [
        credit(row=n, advantages=np.arange(8) + 8 * n, values=np.full(8, float(n)))
        for n in range(2)
    ]
    write_credit(tmp_path, 1, "turn_gae", [*rows, credit(1, advantages=np.zeros(4))])
    view = trajectory_view(line, credit=trajectory_credit(tmp_path, 1, "group1", 0))
    advantages = [turn["tokens"]["advantages"] for turn in view["turns"]]
    assert advantages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert view["turns"][3]["tokens"]["values"] == [1.0] * 4
    assert view["turns"][3]["tokens"]["entropy"] is None
    assert view["credit"]["turns"][2] == {"value": 1.0, "advantage": 9.5}
    assert (view["credit"]["estimator"], view["advantage"]) == ("turn_gae", 7.5)


def test_credit_of_another_trajectory_is_not_shown(line, tmp_path):
    """A row with fewer tokens than the trajectory belongs to another trajectory."""
    write_credit(tmp_path, 1, "grpo", [credit(advantages=np.zeros(3))])
    view = trajectory_view(line, credit=trajectory_credit(tmp_path, 1, "group1", 0))
    assert [turn["tokens"]["advantages"] for turn in view["turns"]] == [None] * 4
    assert (
        trajectory_credit(tmp_path, 2, "group1", 0)
        is trajectory_credit(tmp_path, 1, "other", 0)
        is None
    )


def test_a_trajectory_says_its_likeness_to_its_group(store, tmp_path, asked):
    run = run_folder(tmp_path / "run", [trajectory(store, 0), trajectory(store, 2, reward=0.0)])
    given = {"similarities": [1.0, 0.5]}
    rows = [
        credit(number, advantages=[value] * 16, **given) for number, value in ((0, 0.5), (2, -0.5))
    ]
    write_credit(run, 1, "spo", rows)
    ask = asked(run)
    (row,) = ask("/api/runs/0/trajectories?reward=1:")["rows"]
    found = ask(f"/api/runs/0/trajectories/{row['id']}")["credit"]
    assert found["similarities"] == {"0": 1.0, "2": 0.5}


def test_a_group_is_seen_side_by_side(ask):
    found = ask("/api/runs/0/groups/group1?step=1&split=train")
    assert [each["number"] for each in found["trajectories"]] == [0, 1]
    assert found["gold"] == ["1990"]
    assert all("tokens" not in turn for each in found["trajectories"] for turn in each["turns"])


def test_only_what_was_trained_has_credit(store, tmp_path, asked):
    folder = run_folder(tmp_path / "run", [trajectory(store, 0), trajectory(store, 0, split="val")])
    file = write_credit(folder, 1, "grpo", [credit(advantages=[1.0] * 16)])
    ask = asked(folder)

    def advantages():
        rows = ask("/api/runs/0/trajectories")["rows"]
        return [ask(f"/api/runs/0/trajectories/{row['id']}")["advantage"] for row in rows]

    assert advantages() == [1.0, None]  # a validation has no credit of the step of its number
    listed = ask("/api/runs/0/trajectories?sort=advantage")["rows"]
    assert [(row["split"], row["advantage"]) for row in listed] == [("train", 1.0), ("val", None)]
    file.write_bytes(b"PAR1")
    assert advantages() == [None, None]
