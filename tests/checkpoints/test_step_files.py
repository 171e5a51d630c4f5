"""Files of a run are found by their step."""

from docagent_rl.checkpoints.step_files import step_files


def test_training_comes_first_by_number_and_other_files_are_left_out(tmp_path):
    names = ("10.jsonl", "2.jsonl", "val-3.jsonl", "val-1.jsonl")
    others = ("2.json", ".2.jsonl", "a2.jsonl", "val-.jsonl", "2.jsonl.bak", "1234567890123.jsonl")
    for name in (*names, *others):
        (tmp_path / name).touch()
    found = [(each.split, each.step, each.path.name) for each in step_files(tmp_path, ".jsonl")]
    assert found == [
        ("train", 2, "2.jsonl"),
        ("train", 10, "10.jsonl"),
        ("val", 1, "val-1.jsonl"),
        ("val", 3, "val-3.jsonl"),
    ]
    assert step_files(tmp_path / "none", ".jsonl") == []
