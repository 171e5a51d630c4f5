import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.rehearsal.workspace import check_family, repeated
from docagent_rl.samples.sample import Sample, Split

SAMPLES = [
    Sample(f"q{number}", "made", Split.TRAIN, "doc", "How many?", ("3",)) for number in range(3)
]


def test_questions_are_asked_again_until_there_are_enough():
    found = repeated(SAMPLES, 7, Split.VAL)
    assert [sample.question_id for sample in found] == [
        "q0_0",
        "q1_1",
        "q2_2",
        "q0_3",
        "q1_4",
        "q2_5",
        "q0_6",
    ]
    assert {sample.split for sample in found} == {Split.VAL}


def test_families_whose_tiny_models_see_smaller_images_are_refused():
    for name in ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3"):
        check_family(name)
    with pytest.raises(UserError, match="sees smaller images"):
        check_family("internvl")
