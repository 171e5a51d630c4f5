# ruff: noqa: F811  fixtures are imported by their names
import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.lab.sft.rows import SftFile, sft_rows, tokenizer_digest
from tests.commands.conftest import called
from tests.lab.sft.conftest import played, task  # noqa: F401  fixtures
from tests.lab.sft.recorded import in_texts, masked, model_of, with_turn, write


@pytest.fixture(scope="module")
def model(task, tmp_path_factory):
    return model_of(task, tmp_path_factory.mktemp("model"))


@pytest.fixture
def sft(task, model, tmp_path):
    """Write the rows of trajectories to a file, by the command."""

    def run(trajectories, out, *more):
        source = (
            write(trajectories, tmp_path / "s.jsonl")
            if isinstance(trajectories, list)
            else trajectories
        )
        given = ("sft", source, *more, "--out", tmp_path / out)
        return called(app, *given, "--model", model, "--store", task.paths.store)

    return run


def test_rows_are_those_that_were_played_however_they_were_recorded(sft, task, played, tmp_path):
    trajectory = played.trajectory
    told = sft([trajectory, in_texts(trajectory)], "rows.parquet").stdout
    (row,) = sft_rows(trajectory, played.ledgers)
    rows = list(SftFile(tmp_path / "rows.parquet", tokenizer_digest(task.processor.tokenizer)))
    expected = (row.input_ids, row.loss_mask, row.images)
    assert [(r.input_ids, r.loss_mask, r.images) for r in rows] == [expected] * 2
    tokens, trained = len(row.input_ids), sum(row.loss_mask)
    assert (
        f"2 rows of 2 trajectories, {2 * tokens} tokens ({2 * trained} trained on), 2 images"
        in told
    )
    assert f"longest row {tokens}" in told


def test_what_is_left_out_is_counted_by_reason(sft, played):
    good = played.trajectory
    text, tokens = in_texts(good), len(sft_rows(good, played.ledgers)[0].input_ids)
    bad = [*[masked(good)] * 3, with_turn(good, stop="truncated")]
    bad += [with_turn(text, text="<|im_start|>user"), with_turn(text, text="")]
    result = sft([good, *bad], "rows.parquet", "--max-length", tokens)
    assert "1 rows of 1 trajectories" in result.stdout
    for count, reason in ((3, "masked"), (2, "a turn is empty"), (1, "a turn was cut off")):
        assert f"left out: {count} trajectories ({reason}" in result.stderr
    with pytest.raises(UserError):  # nothing is left
        sft([good], "none.parquet", "--max-length", tokens - 1)


def test_a_trajectory_of_another_model_is_an_error_that_says_what_to_do(sft, played):
    other = with_turn(played.trajectory)
    other.prompt_tokens += 1
    with pytest.raises(UserError, match="--retokenise"):
        sft([other], "rows.parquet")
    assert "1 rows" in sft([other], "rows.parquet", "--retokenise").stdout


def test_pages_that_are_not_those_shown_are_refused(sft, played, tmp_path):
    text = played.trajectory.to_json()
    messages = [message for turn in json.loads(text)["turns"] for message in turn["observation"]]
    (image,) = (
        part["image"] for message in messages for part in message["parts"] if "image" in part
    )
    (tmp_path / "other.jsonl").write_text(text.replace(image["page_hash"], "0" * 64) + "\n")
    with pytest.raises(UserError, match=image["page"]):
        sft(tmp_path / "other.jsonl", "rows.parquet")


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--val-fraction", "0.5", "1 document"),
        ("--val-fraction", "1.5", "fraction"),
        ("--template-kwargs", "[1]", "JSON"),
        ("--template-kwargs", "{", "JSON"),
    ],
)
def test_options_that_cannot_be_are_refused(sft, played, tmp_path, option, value, named):
    with pytest.raises(UserError, match=named):
        sft([played.trajectory], "rows.parquet", option, value)
    for source in (tmp_path / "gone.jsonl", tmp_path / "none"):
        with pytest.raises(UserError, match=source.name):
            sft(source, "rows.parquet")
