"""The choices of agent.yaml: each mistake is one clear error."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.own_agent.project import FILE, read_project

TEACHER = {"base_url": "http://127.0.0.1:8003/v1", "model": "teacher"}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"recip": "x"}, "there is no key 'recip': did you mean recipe"),
        ({"judge": {"base_ur": "x"}}, "judge: there is no key 'base_ur': did you mean base_url"),
        (
            {"evaluation": {"files": "x"}},
            "there is no key 'files': known are questions",
        ),
        ({"recipe": "vrag_qwen2_5_vl_7b"}, "recipe: there is no recipe .* did you mean vrag_rl_"),
        ({"recipe": "sft_vrag_rl_qwen2_5_vl_7b"}, "recipe: there is no recipe 'sft_vrag_rl_"),
        ({"recipe": "mine.yaml"}, "recipe: there is no recipe 'mine'"),
        ({"retriever": "bm52"}, "no index can be built for 'bm52': did you mean bm25"),
        ({"retriever": "qdrant"}, "no index can be built for 'qdrant'"),
        ({"documents": "nowhere"}, "documents: there is no folder .*nowhere"),
        ({"documents": ".."}, "contains the agent's folder"),
        ({"profile": "gpu"}, "profile: Input should be 'cpu'"),
        ({"validation": 1}, "validation: .*less than 1"),
        ({"steps": 0}, "steps: .*greater than or equal to 1"),
        (
            {"evaluation": {"questions": "t.jsonl"}},
            "questions: there is no file .*t.jsonl",
        ),
        ({"teacher": {"model": "m"}}, "player endpoint needs base_url and model"),
        ({"teacher": {"player": "oracle", "model": "m"}}, "oracle has no base_url and no model"),
        (
            {"teacher": TEACHER | {"filters": "f.yaml"}},
            "filters: there is no file .*f.yaml",
        ),
        ({"teacher": TEACHER, "recipe": "mm_doc_r1_qwen3_4b"}, "teacher: there is no recipe that"),
    ],
)
def test_a_wrong_choice_is_named_with_its_file(folder, choose, values, error):
    choose(**values)
    with pytest.raises(UserError, match=error) as found:
        read_project(folder)
    assert str(folder / FILE) in str(found.value)


def test_a_folder_without_choices_says_how_to_make_one(tmp_path):
    with pytest.raises(UserError, match=r"docagent-rl init .* --documents PDFS"):
        read_project(tmp_path)


def test_a_teacher_and_paths_beside_the_file_are_taken(folder, choose):
    (folder / "exam.jsonl").touch()
    choose(teacher=TEACHER, evaluation={"questions": "exam.jsonl"})
    project = read_project(folder)
    assert project.teacher is not None
    assert project.teacher.filters == "collect.yaml"
    assert project.evaluation.questions == "exam.jsonl"
