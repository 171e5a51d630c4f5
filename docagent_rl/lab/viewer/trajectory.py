"""One trajectory as the page shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from docagent_rl.documents import DocumentStore
from docagent_rl.lab.viewer.credit import TrajectoryCredit
from docagent_rl.lab.viewer.features import number, trajectory_id
from docagent_rl.lab.viewer.messages import Messages
from docagent_rl.lab.viewer.trail import documents
from docagent_rl.rollout.credit import TOKENS
from docagent_rl.rollout.evidence import evidence_of, gold_pages, images_of

_TOKEN_PX = 28 * 28
"""Pixels of a visual token where a trajectory does not tell: patches of 14, merged two by two."""
_PLAIN = (
    "step", "split", "system", "status", "end", "error", "attempts", "uid", "number", "reward", "metrics",
    "sample", "prompt_tokens", "response_tokens", "image_preprocessings", "image_loads",
)  # fmt: skip
_INFO = ("action", "reason", "detail", "effect", "outcome")

Turn = Mapping[str, Any]


def trajectory_view(
    trajectory: Mapping[str, Any],
    *,
    run: int,
    store: DocumentStore | None = None,
    tokenizer: Any = None,
    credit: TrajectoryCredit | None = None,
    tokens: bool = True,
) -> dict[str, Any]:
    """Return a trajectory ready for JSON; `tokenizer`, of the library `tokenizers`, is for texts of
    tokens.
    """
    turns, messages = trajectory["turns"], Messages(trajectory, store)
    prompt = messages.described(trajectory.get("prompt"))
    unit, gold = _token_pixels(turns), gold_pages(trajectory["sample"])
    described = [_turn(place, turn, messages, gold, unit) for place, turn in enumerate(turns, 1)]
    if tokens:
        credits = credit.turns(turns) if credit else [None] * len(turns)
        for each, turn, own in zip(described, turns, credits, strict=True):
            each["tokens"] = _tokens(turn, tokenizer, own or {})
    found = evidence_of(trajectory)
    return {
        "id": trajectory_id(trajectory),
        "run": run,
        **{name: trajectory.get(name) for name in _PLAIN},
        "stage": found.stage,
        "guessed": found.guessed,
        "right": found.right,
        "document": documents(trajectory, store),
        "prompt": prompt,
        "prompt_strip": _strip(trajectory.get("prompt"), int(trajectory.get("prompt_tokens") or 0), unit),
        "turns": described,
        "images": messages.images,
        "advantage": credit.advantage if credit else None,
        "credit": credit.described(turns) if credit else None,
    }


def _turn(place: int, turn: Turn, messages: Messages, gold: Collection[str], unit: float) -> dict[str, Any]:
    info = turn.get("info") or {}
    strip = _strip(turn.get("observation"), int(turn.get("observation_tokens") or 0), unit)
    sampled = len(turn.get("token_ids") or ()) or int(turn.get("completion_tokens") or 0)
    of_step = {f"step/{name}": value for name, value in (info.get("seconds") or {}).items()}
    return {
        "number": place,
        "text": turn.get("text", ""),
        "row": turn.get("row", 0),
        "stop": turn.get("stop", ""),
        "reward": number(turn.get("reward")),
        "terms": turn.get("terms") or {},
        "valid": info.get("valid") is not False,
        "executed": bool(info.get("executed", True)),
        **{name: info.get(name) for name in _INFO},
        "spans": list(_spans(info)),
        "hits": _hits(turn, gold),
        "searches": turn.get("searches") or [],
        "seconds": {**(turn.get("seconds") or {}), **of_step},
        "observation": messages.described(turn.get("observation")),
        "observation_tokens": turn.get("observation_tokens", 0),
        "dropped": bool(turn.get("dropped")),
        "sampled": sampled,
        "strip": {
            "observation_text": strip["text"],
            "observation_visual": strip["visual"],
            "sampled": sampled,
        },
    }


def _spans(info: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the grammar read where; a later span stands inside an earlier one."""
    for kind in ("thoughts", "notes"):
        for span in info.get(kind) or ():
            yield _span(kind.removesuffix("s"), span)
    invalid = info.get("valid") is False
    for action in (info.get("action") or {}, *(info.get("surplus") or ())):
        if action.get("block"):
            yield _span("invalid" if invalid else "action", action["block"])
        if action.get("argument"):
            yield _span("invalid" if invalid and not action.get("block") else "argument", action["argument"])


def _span(kind: str, span: Sequence[int]) -> dict[str, Any]:
    return {"kind": kind, "begin": int(span[0]), "end": int(span[1])}


def _hits(turn: Turn, gold: Collection[str]) -> list[dict[str, Any]]:
    """Return the hits of a turn's searches, else those whose ranks stand in its effect."""
    found = [
        (page, rank, score)
        for search in turn.get("searches") or ()
        for rank, (page, score) in enumerate(search.get("hits") or (), 1)
    ]
    if not found:
        effect = (turn.get("info") or {}).get("effect") or {}
        listed = effect.get("hits") if isinstance(effect.get("hits"), list) else effect.get("pages")
        found = [
            (page["page"], page["rank"], page.get("score"))
            for page in listed or ()
            if isinstance(page, Mapping) and page.get("rank") and page.get("score")
        ]
    return [
        {"page": str(p), "rank": rank, "score": score, "gold": str(p) in gold} for p, rank, score in found
    ]


def _tokens(turn: Turn, tokenizer: Any, credit: Mapping[str, list[float]]) -> dict[str, Any]:
    ids = turn.get("token_ids") or []
    return {
        "ids": ids,
        "texts": None if tokenizer is None else [_decoded(tokenizer, each) for each in ids],
        "log_probs": turn.get("log_probs") or [],
        "trainer_log_probs": turn.get("trainer_log_probs"),
        **{name: credit.get(name) for name in TOKENS},
    }


def _decoded(tokenizer: Any, number: int) -> str:
    try:
        return tokenizer.decode([number], skip_special_tokens=False)
    except (OverflowError, TypeError, ValueError):
        return ""


def _token_pixels(turns: Sequence[Turn]) -> float:
    """Return the pixels of a visual token, from an image whose tokens were counted."""
    for turn in turns:
        effect = (turn.get("info") or {}).get("effect") or {}
        for view in (effect, *(effect.get("pages") or ())):
            size = view.get("encoder_size") if isinstance(view, Mapping) else None
            if size and view.get("tokens"):
                return size[0] * size[1] / view["tokens"]
    return _TOKEN_PX


def _strip(messages: Any, tokens: int, unit: float) -> dict[str, int]:
    """Return the tokens of messages, those of text and those of images."""
    sizes = (image.get("size") or (0, 0) for image in images_of(messages))
    visual = min(tokens, sum(round(width * height / unit) for width, height in sizes))
    return {"text": tokens - visual, "visual": visual}
