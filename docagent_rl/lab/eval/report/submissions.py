"""Files that the servers of DUDE and MP-DocVQA take, from the trajectories of an evaluation.

Both withhold the answers of their test questions, which `data import --hidden` keeps.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.lab.eval.metrics.answers import dude_prediction
from docagent_rl.lab.eval.scoring.official import listed_items, refuses
from docagent_rl.lab.eval.scoring.played import Played, read_trajectory
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample, is_digits


@dataclass(frozen=True, slots=True)
class SubmissionServer:
    """A benchmark's server, and how an entry of its file is written."""

    file: str
    questions: int
    """Number of its test questions, all of which it expects."""
    entry: Callable[[Sample, Played], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Submission:
    """The content of a file for a server."""

    text: str
    entries: int
    expected: int


def submissions(trajectories: Iterable[Trajectory]) -> dict[str, Submission]:
    """Return the files by name, one entry for each question; of several trajectories of a question
    the first counts.

    A question without an answer, or one that could not be played, gets an empty answer.

    Raises:
        UserError: no question is of DUDE or MP-DocVQA, or one lacks its native id.
    """
    entries: dict[str, dict[str, dict[str, Any]]] = {}
    for trajectory in trajectories:
        dataset = str(trajectory.sample.get("dataset"))
        if dataset not in _SERVERS or trajectory.number:
            continue
        sample = Sample.from_dict(trajectory.sample)
        entry = _SERVERS[dataset].entry(sample, read_trajectory(trajectory))
        entries.setdefault(dataset, {})[sample.question_id] = entry
    if not entries:
        raise UserError(
            "the run has no questions of dude or mp_docvqa, whose servers take submissions"
        )
    files = {}
    for dataset, of_dataset in sorted(entries.items()):
        server = _SERVERS[dataset]
        text = json.dumps(list(of_dataset.values()), indent=1, ensure_ascii=False)
        files[server.file] = Submission(encodable(text) + "\n", len(of_dataset), server.questions)
    return files


def _dude(sample: Sample, played: Played) -> dict[str, Any]:
    """Return an entry of DUDE's file (GitHub `Jordy-VL/DUDEeval`, `evaluate_submission.py`).

    An answer is a list of texts; a refusal is one empty text. Where the type is withheld, an answer
    with semicolons or line breaks is a list: the scorer takes the first item unless it expects
    several. Agents state no confidence, so there is no `answers_confidence`.
    """
    answer = played.answer or ""
    listed = "list" in sample.answer_format or sample.extra.get("hidden") is True
    items = listed_items(answer) if listed else [answer]
    refused = not answer.strip() or refuses(sample.question, answer)
    return {
        "questionId": _native_id(sample),
        "answers": dude_prediction(items, refused=refused),
        "answers_abstain": refused,
    }


def _mp_docvqa(sample: Sample, played: Played) -> dict[str, Any]:
    """Return an entry of MP-DocVQA's file: `questionId` is a number, `answer_page` an index from 0
    into the pages of the question.

    The first two keys are as others write them (GitHub `OpenGVLab/InternVL`, `evaluate_vqa.py`);
    the third, which the server does not require, was seen in no code.
    """
    native = _native_id(sample)
    entry = {"questionId": int(native) if is_digits(native) else native}
    entry["answer"] = " ".join((played.answer or "").split())
    page = played.answer_page
    if page is not None and page[0] == sample.doc_id:
        entry["answer_page"] = page[1] - 1
    return entry


def _native_id(sample: Sample) -> Any:
    native = sample.extra.get("native_id")
    if native is None:
        raise UserError(
            f"question {sample.question_id!r} has no extra.native_id, which the server needs: "
            "import the benchmark again with `data import`"
        )
    return native


_SERVERS: Mapping[str, SubmissionServer] = {
    "dude": SubmissionServer("submission_dude.json", 11402, _dude),
    "mpdocvqa": SubmissionServer("submission_mp_docvqa.json", 5019, _mp_docvqa),
}
