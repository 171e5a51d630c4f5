"""Replies of judges and the numbers counted from them: VRAG-RL and UniDoc-RL, ViDoSeek, ALDEN, and
their prompts.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.prompts import load_prompt
from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.eval.metrics.accuracy import longdocurl_parse
from docagent_rl.lab.eval.metrics.judges import (
    EXTRACTOR_PROMPT,
    JUDGE_PROMPT,
    AldenVerdict,
    AnswerJudge,
    Extractor,
    Grade,
    Match,
    parse_bool_judge,
    parse_grade_judge,
    parse_label_judge,
    parse_match_judge,
    parse_score_judge,
)
from docagent_rl.rewards.mmlongbench import extracted_answer

PIECES = ["<judge>", "</judge>", "true", "TRUE", "True", "False", "fAlse", "un", "\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_verdicts_equal_the_slow_reading(reply):
    found = re.search("<judge>(.*?)</judge>", reply, re.DOTALL)
    vrag = None
    if found and re.search("[tT]rue", found[1]):
        vrag = True
    elif found and re.search("[fF]alse", found[1]):
        vrag = False
    assert parse_bool_judge(reply) is vrag
    assert parse_bool_judge(reply, PaperJudge.TRUE_FALSE) is bool(
        found and re.search("true", found[1], re.IGNORECASE)
    )


@given(st.text(max_size=20) | st.text("0459 a-\u0664\u00b2", max_size=8))
def test_the_grade_is_the_first_digit_by_looking_at_every_letter(reply):
    digits = [letter for letter in reply if letter.isdecimal()]
    assert parse_score_judge(reply) == (int(digits[0]) if digits else None)


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("<label>Correct</label>", AldenVerdict.CORRECT), ("ok <label> incorrect.\n</label>",
        AldenVerdict.INCORRECT),
        ("<label>Tie / "
         "Unclear</label>", AldenVerdict.TIE), ("<label>tie</label>", AldenVerdict.TIE),
        ("<label>Unclear</label><label>Correct</label>", AldenVerdict.TIE),
        ("<label>not correct</label>", None),
        ("Correct", None),
    ],
)  # fmt: skip
def test_replies_of_judges(reply, label):
    assert parse_label_judge(reply) is label


def examples(name: str, after: str) -> list[str]:
    text = load_prompt(name, EXTRACTOR_PROMPT).render("user", question="", answer="")
    return [after + piece for piece in text.split(after)[2:]]


def test_the_examples_in_the_prompts_are_read_by_the_parsers():
    said = [
        extracted_answer(each) for each in examples(Extractor.MMLONGBENCH_DOC, "Extracted answer:")
    ]
    people = ["Maren Holt", "['north ward', 'children\\'s ward']"]
    assert said == ["26", "7.4", *people, "Not answerable", "Fail to answer"]
    found = [longdocurl_parse(each) for each in examples(Extractor.LONGDOCURL, "<concise_answer>")]
    assert found == [1310, 12.5, "Water Management", ["Table 2", "Table 7"], "Not answerable"]


def test_the_forms_that_judges_are_shown_are_read_by_the_parsers():
    last = {}
    for name in AnswerJudge:
        prompt = load_prompt(name, JUDGE_PROMPT)
        text = prompt.render("user", question="", references=["r"], prediction="p")
        last[name] = text.strip().split("\n")[-1]
    assert parse_score_judge(last[AnswerJudge.VIDOSEEK]) == 4
    for form, verdict in zip(
        last[AnswerJudge.TRUE_FALSE].split(" or "), (True, False), strict=True
    ):
        assert parse_bool_judge(form) is parse_bool_judge(form, PaperJudge.TRUE_FALSE) is verdict
    assert parse_label_judge(last[AnswerJudge.ALDEN]) is AldenVerdict.CORRECT
    assert parse_match_judge(last[AnswerJudge.MMLONGBENCH_DOC_V2]) is Match.SAME
    assert parse_grade_judge(last[AnswerJudge.MADQA]) is Grade.CORRECT


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        ('{"equivalent": true, "abstained": false, "reason": "}"}', Match.SAME),
        ('```json\n{"abstained": true, "equivalent": true}\n```', Match.DECLINED),
        (
            'So: {"equivalent": false, "abstained": false} {"equivalent": true, "abstained": '
            "false}",
            Match.OTHER,
        ),
        ('{"equivalent": false, "abstained": true}', Match.ABSTAINED),
        ('{"equivalent": "true", "abstained": false}', None),
        ('{"equivalent": 1, "abstained": 0}', None),
        ('{"equivalent": true}', None),
        ('{"equivalent": true, "abstained": false', None),
        ("[true, false]", None),
        ("[" * 100_000, None),
        ('{"a":' * 100_000, None),
    ],
)
def test_matches_are_read_from_the_first_object(reply, match):
    assert parse_match_judge(reply) is match


def test_a_match_says_whether_it_is_the_answer_and_one_at_all():
    flags = {match: (match.equivalent, match.abstained) for match in Match}
    assert flags == {
        Match.SAME: (True, False),
        Match.DECLINED: (True, True),
        Match.OTHER: (False, False),
        Match.ABSTAINED: (False, True),
    }


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ('{"judgment": "correct"}', Grade.CORRECT),
        ('{"main_issue": "list_format", "judgment": "partial"}', Grade.PARTIAL),
        ('{"judgment": "incorrect"} {"judgment": "correct"}', Grade.INCORRECT),
        ('{"judgment": "Correct"}', None),
        ('{"judgment": ["correct"]}', None),
        ("correct", None),
    ],
)
def test_grades_are_read_from_the_first_object(reply, grade):
    assert parse_grade_judge(reply) is grade
