"""Released dialogues: what is read from a row, and why a row is none."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.collect.dialogues import DialogueError, read_dialogue, read_dialogues
from docagent_rl.lab.collect.rules import Rejection
from tests.lab.collect.released import dialogue, image, listed, pages_of, row

SEARCH = "<think>a</think>\n<search>staff</search>"
SELECT = "<select>0</select>"
ANSWER = "<information>b</information>\n<answer>c</answer>"
PAGE = "/img/deck_3.jpg"
SHOWN = "The selected image is:\n<image>"
TEXTS = [SEARCH, listed(1), SELECT, SHOWN, ANSWER]


def read(values):
    return read_dialogue(values, "sft#000007", 7)


def rejected(values):
    with pytest.raises(DialogueError) as caught:
        read(values)
    return caught.value.reason


def test_a_dialogue_is_a_question_and_turns_with_the_images_shown_next(world):
    found = read(dialogue(world, uid="u1"))
    refs = pages_of(world, 6)
    sample = found.sample
    assert (sample.question, sample.answers) == ("How many people work there?", ("1,204",))
    assert (sample.question_id, sample.extra["native_id"]) == ("sft#000007", "u1")
    # what the teacher selected, over two documents
    assert sample.gold_pages == {(ref.doc_id, ref.page) for ref in (refs[1], refs[3])}
    actions = [exchange.action for exchange in found.exchanges]
    assert actions == ["search", "select", "bbox", "search", "select", "answer"]
    assert found.exchanges[0].images == tuple(map(image, refs[:3]))
    assert found.exchanges[2].pages == ()
    assert found.pages == {(ref.doc_id, ref.page) for ref in refs}


def test_a_row_of_the_generator_says_how_its_answer_was_judged():
    texts = [*TEXTS, "The judge is YES."]
    plain = row(texts, [[PAGE], PAGE], uid="a")
    plain["messages"][0]["content"] = "What is it?"
    assert read(plain).sample.question == "What is it?"
    assert rejected(row([*TEXTS, "The judge is NO."], [[PAGE], PAGE])) is Rejection.JUDGED_WRONG


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("text", Rejection.NO_DIALOGUE),
        ({"messages": [], "images": []}, Rejection.NO_DIALOGUE),
        ({"messages": [{"role": "user"}], "images": []}, Rejection.NO_DIALOGUE),
        (row(TEXTS, [PAGE, 3]), Rejection.NO_DIALOGUE),
        (row([SEARCH, listed(1), SHOWN], [PAGE, PAGE]), Rejection.FAULTY),
        (row([SEARCH, listed(1), SELECT, SHOWN], [PAGE, PAGE]), Rejection.NO_DIALOGUE),
        (row(TEXTS, [PAGE]), Rejection.IMAGE_COUNT),
        (row(TEXTS, [PAGE, "/img/deck.jpg"]), Rejection.NO_PAGE),
        (row(TEXTS, [PAGE, PAGE], question=" "), Rejection.NO_QUESTION),
        (row([SEARCH, listed(1), ANSWER], [PAGE]), Rejection.UNFINISHED),
        (row([*TEXTS[:4], "<information>b</information>"], [PAGE, PAGE]), Rejection.FAULTY),
        (row([*TEXTS[:4], SEARCH], [PAGE, PAGE]), Rejection.UNFINISHED),
        (row([*TEXTS[:4], "<answer> </answer>"], [PAGE, PAGE]), Rejection.UNFINISHED),
        (row([*TEXTS[:4], "<answer>\ud800</answer>"], [PAGE, PAGE]), Rejection.NO_DIALOGUE),
    ],
)
def test_a_row_that_is_no_finished_dialogue_has_its_reason(values, reason):
    assert rejected(values) is reason


def test_an_answer_may_contain_a_sign():
    values = row([*TEXTS[:4], "<answer>a < b</answer>"], [PAGE, PAGE])
    assert read(values).sample.answers == ("a < b",)


def test_files_are_found_in_a_download_and_rows_named_after_them(tmp_path):
    rows = [row(TEXTS, [PAGE, PAGE]), row(TEXTS, [PAGE])]
    (tmp_path / "unidoc_sft.json").write_text(json.dumps(rows))
    (tmp_path / "train.json").write_text(json.dumps([{"uid": "question of RL"}]))
    found = read_dialogues(tmp_path)
    assert list(found.found) == ["unidoc_sft#000000"]
    assert list(found.rejected) == ["unidoc_sft#000001"]
    lines = tmp_path / "cot.jsonl"
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    assert list(read_dialogues(lines).found) == ["cot#000000"]
    assert read_dialogues(lines).digest() != found.digest()
    with pytest.raises(UserError, match=r"train\.json.*no dialogue"):
        read_dialogues(tmp_path / "train.json")
