"""How the texts of a stored run were counted."""

from docagent_rl.commands.counting import run_counter
from docagent_rl.envs.token_budget import estimated_tokens
from tests.training.rescoring.stage import stored_run


def test_by_the_tokenizer_of_the_run_or_estimated(world, tmp_path, processor):
    model = tmp_path / "model"
    processor.save_pretrained(model)
    run = stored_run(world, tmp_path / "run", "vrag_rl", questions=1, model=model)
    text = "What was the headcount in 2024?"
    expected = len(processor.tokenizer.encode(text, add_special_tokens=False))
    for source in (run, run / "trajectories" / "1.jsonl"):
        assert run_counter(source)(text) == expected
    assert run_counter(stored_run(world, tmp_path / "other", "vrag_rl", questions=1)) is estimated_tokens


def test_a_file_that_belongs_to_no_run(tmp_path):
    (tmp_path / "mine.jsonl").write_text("")
    assert run_counter(tmp_path / "mine.jsonl") is estimated_tokens
    assert run_counter(tmp_path / "missing") is estimated_tokens
