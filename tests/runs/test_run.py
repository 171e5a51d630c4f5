"""Runs of every kind as tables: what is in them, and what is refused."""

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from docagent_rl import runs
from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.runs.columns import COLUMNS, RunTable
from docagent_rl.runs.run import RunKind
from tests.corpus import store  # noqa: F401  a fixture
from tests.lab.viewer.conftest import made, run  # noqa: F401  fixtures
from tests.viewer_runs import trajectory
from tools.run_columns import PAGE, with_columns

TEXT = PAGE.read_text(encoding="utf-8")


def column(table: pa.Table, name: str) -> list:
    return table.column(name).to_pylist()


def only(table: pa.Table, **values) -> list[dict]:
    """The rows with these values."""
    return [row for row in table.to_pylist() if values.items() <= row.items()]


def test_the_trajectories_of_a_training_run(run):  # noqa: F811
    found = runs.open(run)
    assert (found.kind, found.path) == (RunKind.TRAINING, run)
    table = found.trajectories
    assert column(table, "split") == ["train"] * 4 + ["val"]
    assert column(table, "step") == [1, 1, 2, 2, 2]
    assert column(table, "reward") == [1.0, 0.0, 0.5, 0.0, 1.0]
    # a mean over the sampled tokens of all rows: (8 * -0.25 + 4 * -0.5) / 12
    assert column(table, "advantage")[:2] == [0.5, pytest.approx(-1 / 3)]
    (first,) = only(table, uid="group1", number=0, split="train")
    expected = {
        "run": "run", "part": "", "question_id": "q1", "doc_id": "K", "gold_pages": ["K#3"],
        "gold": ["1990"], "answer": "1990", "outcome": "right", "score": 1.0, "stage": "right",
        "branch": "zoomed", "guessed": False, "turns": 4, "invalid": 1, "prompt_tokens": 100,
        "response_tokens": 160, "truncated": False, "seconds": 3.0, "error": None,
        "question": "When was it opened, 1?", "dropped_by": None,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert dict(first["metrics"])["turns"] == 4.0
    (masked,) = only(table, status="masked")
    assert [masked[name] for name in ("end", "stage", "answer")] == ["infrastructure", None, None]


def test_its_turns_terms_and_tokens(run):  # noqa: F811
    found = runs.open(run)
    search, refused, crop, answer = only(found.turns, uid="group1", number=1, split="train", step=1)
    assert [search[name] for name in ("turn", "action", "effect", "searches")] == [
        1, "search", "pages", 1,
    ]  # fmt: skip
    assert (search["found"], search["shown"]) == (["K#2", "K#3"], ["K#3"])
    assert dict(search["seconds"]) == {"generate": 0.5, "step": 0.25}
    assert (refused["valid"], refused["reason"]) == (False, "bad_argument")
    assert (crop["shown"], crop["images"], crop["sampled_tokens"]) == (["K#3"], 1, 4)
    assert "needle" in search["text"]
    assert (answer["turn"], answer["arguments"]) == (4, '{"text": "1990"}')

    terms = only(found.terms, uid="group1", number=0, split="train")
    assert {row["term"]: row["value"] for row in terms} == {"outcome": 1.0, "format": 1.0}

    tokens = only(found.tokens, uid="group1", number=0, split="train")
    assert [row["token_ids"] for row in tokens] == [[5, 6, 7, 8]] * 4
    assert tokens[0]["trainer_log_probs"] == pytest.approx([-0.1, -0.2, -0.3, -0.5])


def test_terms_of_turns_and_of_tokens(run, store):  # noqa: F811
    played = trajectory(store, step=3)
    played.turns[0].terms = {"retrieval": 0.25}
    played.turns[2].token_terms = [("repetition", 1, 3, -0.5)]
    Seal(run).write(run / "trajectories" / "3.jsonl", played.to_json() + "\n")
    places = ("turn", "term", "value", "first", "last")
    rows = [[row[name] for name in places] for row in only(runs.open(run).terms, step=3)]
    assert [1, "retrieval", 0.25, None, None] in rows
    assert [3, "repetition", -0.5, 1, 3] in rows


def test_its_metrics_and_its_credit(run):  # noqa: F811
    verls = {"val-core/made/acc/mean@1": 0.5, "actor/lr": 1e-6}
    Seal(run).write(run / "metrics" / "10.json", str(verls).replace("'", '"'))
    found = runs.open(run)
    (turns,) = only(found.metrics, split="val", step=2, metric="docagent/turns")
    assert turns["value"] == 4.0
    assert [row["split"] for row in only(found.metrics, step=10)] == ["val", "train"]
    assert column(found.metrics, "step")[-2:] == [2, 2]  # by number, validations last
    credit = found.credit.select(["step", "uid", "number", "row", "estimator", "advantages"])
    assert credit.to_pylist() == [
        {"step": 1, "uid": "group1", "number": n, "row": row, "estimator": "grpo", "advantages": a}
        for n, row, a in ((0, 0, [0.5] * 12), (1, 0, [-0.25] * 8), (1, 1, [-0.5] * 4))
    ]
    assert column(found.credit, "values") == [None] * 3
    assert found.scores.num_rows == 0


def begun(path: Path, played: list, **manifest) -> Path:
    """The folder of a run outside the trainer."""
    folder = RunFolder(path)
    folder.begin(manifest)
    with folder.writing() as append:
        for each in played:
            append(each)
    return path


def test_of_a_trajectory_that_was_played_again_the_last_line_counts(store, tmp_path):  # noqa: F811
    failed = trajectory(store, status="masked", end="infrastructure", turns=[], reward=0.0)
    path = begun(tmp_path / "e", [failed, trajectory(store, 1), trajectory(store)], kind="eval")
    found = runs.open(path)
    assert found.kind is RunKind.EVALUATION
    assert column(found.trajectories, "number") == [1, 0]
    assert column(found.trajectories, "status") == ["finished", "finished"]
    assert found.turns.num_rows == 8


def test_the_conditions_of_a_probe_are_parts(store, tmp_path):  # noqa: F811
    for name, reward in (("blank", 0.0), ("as_is", 1.0)):
        begun(tmp_path / "probe" / name, [trajectory(store, reward=reward)], kind="eval")
    found = runs.open(tmp_path / "probe")
    assert found.kind is RunKind.PROBE
    assert found.trajectories.select(["run", "part", "reward"]).to_pylist() == [
        {"run": "probe", "part": "as_is", "reward": 1.0},
        {"run": "probe", "part": "blank", "reward": 0.0},
    ]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("trajectories/1.jsonl", "trajectories"),
        ("trajectories/2.jsonl", "turns"),
        ("metrics/1.json", "metrics"),
        ("credit/1.parquet", "credit"),
        ("credit/1.parquet", "trajectories"),
    ],
)
@pytest.mark.parametrize("unsealed", [False, True])
def test_a_damaged_or_missing_file_is_refused_by_name(run, name, table, unsealed):  # noqa: F811
    whole = (run / name).read_bytes()
    for spoil in (whole[:-2] + b"\n", b"", None):
        (run / name).unlink()
        if spoil is not None:
            (run / name).write_bytes(spoil)
        with pytest.raises(UserError, match=re.escape(str(run / name))):
            getattr(runs.open(run, unsealed=unsealed), table)
        (run / name).write_bytes(whole)
    shutil.copy(run / name, (run / name).with_stem("7"))
    with pytest.raises(UserError, match=r"7\."):
        getattr(runs.open(run, unsealed=unsealed), table)


def test_an_unsealed_file_is_read_on_request_alone(run):  # noqa: F811
    file, gone = (run / "trajectories" / f"{step}.jsonl" for step in (3, 4))
    Seal(run).begin([file, gone])
    line = (run / "trajectories" / "1.jsonl").read_text()
    file.write_text(line + line[:100])
    with pytest.raises(UserError, match=r"3\.jsonl is not sealed.*unsealed=True"):
        _ = runs.open(run).trajectories
    assert runs.open(run, unsealed=True).trajectories.num_rows == 7
    (run / "seal.jsonl").unlink()
    with pytest.raises(UserError, match=r"seal\.jsonl is missing"):
        _ = runs.open(run).metrics
    assert runs.open(run, unsealed=True).metrics.num_rows == 6


def test_a_line_that_is_no_trajectory_is_named(run):  # noqa: F811
    Seal(run).write(run / "trajectories" / "1.jsonl", '{"step": 1}\n')
    for table in ("trajectories", "turns", "terms", "tokens"):
        with pytest.raises(UserError, match=r"1\.jsonl, line 1"):
            getattr(runs.open(run), table)
    line = (run / "trajectories" / "2.jsonl").read_text().replace('"step": 2', '"step": "x"')
    Seal(run).write(run / "trajectories" / "1.jsonl", line)
    with pytest.raises(UserError, match=r"1\.jsonl"):
        _ = runs.open(run).turns


def test_what_is_no_run_and_what_is_no_table(run, tmp_path):  # noqa: F811
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match=re.escape(str(path))):
            runs.open(path)
    with pytest.raises(UserError, match=r"'actions' is not a table.*trajectories"):
        runs.open(run).read("actions")


def test_a_reader_yields_batches_and_the_error_of_a_file(run):  # noqa: F811
    found = runs.open(run)
    batches = list(found.read("turns"))
    assert len(batches) == 3  # one file each
    assert pa.Table.from_batches(batches) == found.turns
    (run / "trajectories" / "2.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"2\.jsonl"):
        runs.open(run).read(RunTable.TURNS).read_all()


def test_every_column_is_documented(run):  # noqa: F811
    assert with_columns(TEXT) == TEXT
    found = runs.open(run)
    for table in RunTable:
        schema = getattr(found, table).schema
        assert schema.names == [each.name for each in COLUMNS[table]]
        assert all(field.metadata[b"meaning"] for field in schema)


@pytest.mark.parametrize("number", range(3))
def test_the_code_of_the_page(run, tmp_path, monkeypatch, capsys, number):  # noqa: F811
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 3
    shutil.copytree(run, tmp_path / "runs" / "grpo")
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[number], PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    expected = (("training 5 trajectories",), ("0.5",), ("search", "answer"))
    assert all(text in printed for text in expected[number])
