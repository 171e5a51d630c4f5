"""Recorded trajectories as environments write them, and folders of runs of them."""

from pathlib import Path

from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn, describe_messages
from docagent_rl.samples.sample import Sample, Split


def question(number=0, **changes) -> Sample:
    settings = {
        "question_id": f"q{number}",
        "dataset": "own",
        "split": Split.TEST,
        "doc_id": f"d{number % 7}",
        "question": "Which lake is meant?",
        "answers": ("Lake Ontario",),
        "evidence_pages": (3,),
        "evidence_sources": ("Table",),
        "extra": {"gold": None, "num_pages": 12, "native_id": None, "row": number},
    }
    settings.update(changes)
    settings["extra"] = {"gold": None, "num_pages": 12, "native_id": None, "row": number} | (
        changes.get("extra") or {}
    )
    return Sample(**settings)


def turn(kind, text="", *, pages=(), doc_id="d0", executed=True, **info) -> TrajectoryTurn:
    """Return a turn with an action of this kind, and the pages that it showed."""
    described = [{"page": f"{doc_id}#{page}", "number": page} for page in pages]
    action = {"kind": kind, **({"text": text} if kind == "answer" else {})}
    told = {"action": action, "executed": executed, "valid": kind != "invalid", **info}
    if pages:
        told["effect"] = {"kind": "pages", "pages": described}
    return TrajectoryTurn(f"<{kind}>{text}</{kind}>", "end_of_turn", [1, 2], [], info=told)


def play_of(sample: Sample, *turns, number=0, system="own", **changes) -> Trajectory:
    ended = bool(turns) and (turns[-1].info["action"] or {}).get("kind") == "answer"
    settings = {
        "status": (Status.FINISHED if ended else Status.UNFINISHED).value,
        "end": "answered" if ended else "turn_limit",
        "turns": list(turns),
        "prompt_tokens": 10,
    } | changes
    return Trajectory(sample.question_id, number, 0, "val", sample.to_dict(), system, **settings)


def masked(sample: Sample, reason="sample", **changes) -> Trajectory:
    return play_of(sample, status="masked", end=reason, error="gone", **changes)


def answered(sample: Sample, answer: str, *, pages=(3,), **changes) -> Trajectory:
    found = turn("search", "lake", pages=pages, doc_id=sample.doc_id)
    return play_of(sample, found, turn("answer", answer), **changes)


async def recorded(env, system, sample, turns, play) -> tuple[Trajectory, dict[str, float]]:
    """Return the recording of this play, and the environment's own numbers."""
    state = await play(env, sample, turns)
    played = [
        TrajectoryTurn(text, "end_of_turn", [], [], info=result.record.to_dict())
        for text, result in zip(turns, state.results, strict=False)
    ]
    prompt = describe_messages(state.prompt)
    whole = Trajectory("u", 0, 0, "val", sample.to_dict(), system, turns=played, prompt=prompt)
    return whole, state.metrics


def run_of(path: Path, trajectories, **manifest) -> RunFolder:
    """Write the folder of a complete run."""
    folder = RunFolder(path)
    folder.begin({"player": {"model": "small"}} | manifest)
    with folder.writing() as append:
        for trajectory in trajectories:
            append(trajectory)
    return folder
