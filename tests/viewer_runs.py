"""Folders of runs with trajectories over the corpus, as the trainer writes them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from docagent_rl.base.seals import Seal
from docagent_rl.documents import PageRef
from docagent_rl.documents.drawn import Resample
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import Fill, ImageRef, ImageSheet, SheetLabel, Tile
from docagent_rl.envs.outcome import Outcome
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn

GOLD = "K#3"
BOX = [0.1, 0.1, 0.5, 0.5]


def part(
    store: DocumentStore, page: str, box: Sequence[float], size: tuple[int, int] = (84, 84)
) -> ImageRef:
    """Return a part of a page in the form in which it is shown."""
    found = store.page(PageRef.parse(page))
    raster = tuple(round(share * side) for share, side in zip(box, 2 * found.size, strict=True))
    return ImageRef(found.ref, found.image_hash, raster, size)


def whole(store: DocumentStore, page: str) -> ImageRef:
    return part(store, page, (0, 0, 1, 1), (210, 148))


def sheet(store: DocumentStore, *pages: str) -> ImageSheet:
    """Return thumbnails side by side."""
    tiles, labels = [], []
    for number, page in enumerate(pages):
        image = replace(part(store, page, (0, 0, 1, 1), (60, 40)), resample=Resample.LANCZOS)
        tiles.append(Tile(image, (60 * number, 20)))
        labels.append(SheetLabel(str(number + 1), (60 * number, 0, 60 * number + 60, 20)))
    wide = 60 * len(pages)
    fills = (Fill((0, 0, wide, 20), (224, 224, 224)),)
    return ImageSheet((wide, 60), (wide, 60), tuple(tiles), fills, tuple(labels))


def shown(*parts: Any) -> list[dict[str, Any]]:
    """Return a message of texts and pictures."""
    described = [
        {"text": each} if isinstance(each, str) else {"image": each.to_dict()} for each in parts
    ]
    return [{"role": "user", "parts": described}]


def turn(
    text: str, action: dict, effect: dict, *parts: Any, info: dict | None = None, **more: Any
) -> TrajectoryTurn:
    """Return a turn of four sampled tokens, with its action and effect."""
    told = {"action": action, "effect": effect, "valid": True, "executed": True, **(info or {})}
    values = {
        "token_ids": [5, 6, 7, 8],
        "log_probs": [-0.1, -0.2, -0.3, -0.4],
        "trainer_log_probs": [-0.1, -0.2, -0.3, -0.5],
        "seconds": {"generate": 0.5, "step": 0.25},
        "observation": shown(*parts) if parts else [],
        "observation_tokens": 40,
    }
    return TrajectoryTurn(text, "end_of_turn", info=told, **(values | more))


def trajectory(
    store: DocumentStore,
    number: int = 0,
    *,
    question: int = 1,
    step: int = 1,
    split: str = "train",
    reward: float = 1.0,
    said: str = "",
    **more: Any,
) -> Trajectory:
    """Return a trajectory that searches, finds the gold page among others, magnifies the evidence,
    and answers.
    """
    found = {
        "page": GOLD,
        "size": [210, 148],
        "encoder_size": [210, 148],
        "tokens": 30,
        "rank": 2,
        "score": 2.0,
    }
    search = {
        "retriever": "retriever",
        "query": "pagek3",
        "hits": [["K#2", 2.5], [GOLD, 2.0]],
        "seconds": 0.2,
    }
    turns = [
        turn(
            f"<think>I look.</think><search>pagek3 {said}</search>",
            {"kind": "search", "block": [22, 46], "argument": [30, 37], "query": "pagek3"},
            {"kind": "pages", "hits": 2, "pages": [found]},
            "Page 3:",
            whole(store, GOLD),
            info={"thoughts": [[7, 14]], "seconds": {"search": 0.2}},
            searches=[{**search, "tries": 1}],
        ),
        turn(
            "<bbox>[9, 9, 2, 2]</bbox>",
            {"kind": "crop", "block": [0, 24], "argument": [6, 18]},
            {"kind": "feedback"},
            "The box is empty.",
            info={
                "valid": False,
                "reason": "bad_argument",
                "detail": "the box is empty",
                "executed": False,
            },
        ),
        turn(
            "<bbox>[10, 10, 100, 74]</bbox>",
            {"kind": "crop", "boxes": [[10, 10, 100, 74]]},
            {"kind": "crop", "page": GOLD, "region": BOX, "size": [84, 84], "tokens": 9},
            part(store, GOLD, BOX),
        ),
        turn(
            "<answer>1990</answer>",
            {"kind": "answer", "text": "1990"},
            {"kind": "answer"},
            reward=reward,
        ),
    ]
    sample = {
        "question_id": f"q{question}", "dataset": "made", "split": split, "doc_id": "K",
        "question": f"When was it opened, {question}?", "answers": ["1990"], "evidence_pages": [3],
        "evidence_boxes": {"3": [BOX]}, "evidence_sources": ["Chart"], "answerable": True,
        "extra": {"num_pages": 5},
    }  # fmt: skip
    values = {
        "system": "vrag_rl",
        "status": Status.FINISHED.value,
        "end": "answered",
        "prompt": shown("Answer.", sheet(store, "K#1", "K#2", GOLD)),
        "prompt_tokens": 100,
        "response_tokens": 160,
        "turns": turns,
        "reward": reward,
        "metrics": {"reward/outcome": float(reward > 0.5), "reward/format": 1.0, "turns": 4.0},
        "outcome": Outcome.of(float(reward > 0.5)),
    }
    return Trajectory(f"group{question}", number, step, split, sample, **(values | more))


def run_folder(path: Path, trajectories: Sequence[Trajectory]) -> Path:
    """Write a training run of these trajectories, with numbers for each of its steps."""
    files: dict[str, list[Trajectory]] = {}
    for each in trajectories:
        files.setdefault(f"{'val-' if each.split == 'val' else ''}{each.step}", []).append(each)
    for name, own in files.items():
        lines = "".join(each.to_json() + "\n" for each in own)
        Seal(path).write(path / "trajectories" / f"{name}.jsonl", lines)
        numbers = {"docagent/turns": 4.0, "actor/entropy": 1.0 / len(own)}
        Seal(path).write(path / "metrics" / f"{name}.json", json.dumps(numbers))
    return path
