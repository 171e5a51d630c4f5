"""One session as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docagent_rl.documents import DocumentStore
from docagent_rl.lab.viewer.credit import SessionCredit
from docagent_rl.lab.viewer.features import number, session_id
from docagent_rl.lab.viewer.messages import Messages
from docagent_rl.lab.viewer.pages import PageSizes, length_of
from docagent_rl.lab.viewer.trail import documents
from docagent_rl.rollout.evidence import evidence_of, gold_boxes, gold_pages, images_of

_TOKEN_PX = 28 * 28
"""Pixels of a visual token where a session does not tell: patches of 14, merged two by two."""
_PLAIN = (
    "step", "split", "system", "status", "end", "error", "attempts", "uid", "session", "reward", "metrics",
    "record", "prompt_tokens", "response_tokens", "image_preprocessings", "image_loads",
)  # fmt: skip


def session_view(
    session: Mapping[str, Any],
    *,
    run: int,
    store: DocumentStore | None = None,
    tokenizer: Any = None,
    credit: SessionCredit | None = None,
    tokens: bool = True,
) -> dict[str, Any]:
    """A session, ready for JSON.

    Args:
        session: as recorded.
        run: its number.
        store: of its documents.
        tokenizer: for the texts of tokens, of the library `tokenizers`.
        credit: what the estimator made of it.
        tokens: with them.
    """
    record = session["record"]
    gold, sizes = gold_pages(record), PageSizes(store, session)
    messages = Messages(sizes, gold, gold_boxes(record))
    prompt = messages.described(session.get("prompt"))
    unit = _token_pixels(session["turns"])
    credits = credit.turns(session["turns"]) if credit else [None] * len(session["turns"])
    turns = [
        _turn(place, turn, messages, gold, unit)
        | ({"tokens": _tokens(turn, tokenizer, own_credit)} if tokens else {})
        for place, (turn, own_credit) in enumerate(zip(session["turns"], credits, strict=True), 1)
    ]
    found = evidence_of(session)
    return {
        "id": session_id(session),
        "run": run,
        **{name: session.get(name) for name in _PLAIN},
        "stage": found.stage,
        "guessed": found.guessed,
        "right": found.right,
        "document": documents(session, lambda doc_id: length_of(store, doc_id)),
        "prompt": prompt,
        "prompt_strip": _strip(session.get("prompt"), int(session.get("prompt_tokens") or 0), unit),
        "turns": turns,
        "images": messages.images,
        "advantage": credit.advantage if credit else None,
        "credit": credit.described(session["turns"]) if credit else None,
    }


def _turn(
    place: int, turn: Mapping[str, Any], messages: Messages, gold: frozenset[str], unit: float
) -> dict[str, Any]:
    info = turn.get("info") or {}
    strip = _strip(turn.get("observation"), int(turn.get("observation_tokens") or 0), unit)
    return {
        "number": place,
        "text": turn.get("text", ""),
        "row": turn.get("row", 0),
        "stop": turn.get("stop", ""),
        "reward": number(turn.get("reward")),
        "terms": turn.get("terms") or {},
        "action": info.get("action"),
        "valid": info.get("valid") is not False,
        "executed": bool(info.get("executed", True)),
        "reason": info.get("reason"),
        "detail": info.get("detail"),
        "effect": info.get("effect"),
        "outcome": info.get("outcome"),
        "spans": list(_spans(info)),
        "hits": _hits(turn, gold),
        "searches": turn.get("searches") or [],
        "seconds": {**(turn.get("seconds") or {}), **_parts_of_step(info)},
        "observation": messages.described(turn.get("observation")),
        "observation_tokens": turn.get("observation_tokens", 0),
        "dropped": bool(turn.get("dropped")),
        "sampled": len(turn.get("token_ids") or ()) or int(turn.get("completion_tokens") or 0),
        "strip": {
            "observation_text": strip["text"],
            "observation_visual": strip["visual"],
            "sampled": len(turn.get("token_ids") or ()) or int(turn.get("completion_tokens") or 0),
        },
    }


def _parts_of_step(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a step of the environment spent its time on."""
    return {f"step/{name}": value for name, value in (info.get("seconds") or {}).items()}


def _spans(info: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the grammar read where; a later one stands inside an earlier one."""
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


def _hits(turn: Mapping[str, Any], gold: frozenset[str]) -> list[dict[str, Any]]:
    """Of the searches of a turn, else what its effect says of ranks."""
    logged = [
        {"page": str(page), "rank": rank, "score": score, "gold": str(page) in gold}
        for search in turn.get("searches") or ()
        for rank, (page, score) in enumerate(search.get("hits") or (), 1)
    ]
    if logged:
        return logged
    effect = (turn.get("info") or {}).get("effect") or {}
    listed = effect.get("hits") if isinstance(effect.get("hits"), list) else effect.get("pages")
    return [
        {
            "page": str(page["page"]),
            "rank": page["rank"],
            "score": page.get("score"),
            "gold": page["page"] in gold,
        }
        for page in listed or ()
        if isinstance(page, Mapping) and page.get("rank") and page.get("score")
    ]


def _tokens(
    turn: Mapping[str, Any], tokenizer: Any, credit: Mapping[str, list[float]] | None
) -> dict[str, Any]:
    ids = turn.get("token_ids") or []
    known = credit or {}
    return {
        "ids": ids,
        "texts": None if tokenizer is None else [_decoded(tokenizer, each) for each in ids],
        "log_probs": turn.get("log_probs") or [],
        "trainer_log_probs": turn.get("trainer_log_probs"),
        **{name: known.get(name) for name in ("advantages", "returns", "values", "entropy", "kl")},
    }


def _decoded(tokenizer: Any, number: int) -> str:
    try:
        return tokenizer.decode([number], skip_special_tokens=False)
    except (OverflowError, TypeError, ValueError):
        return ""


def _token_pixels(turns: Sequence[Mapping[str, Any]]) -> float:
    """Pixels of a visual token, from an image whose tokens were counted."""
    for turn in turns:
        effect = (turn.get("info") or {}).get("effect") or {}
        for view in (effect, *(effect.get("pages") or ())):
            size = view.get("encoder_size") if isinstance(view, Mapping) else None
            if size and view.get("tokens"):
                return size[0] * size[1] / view["tokens"]
    return _TOKEN_PX


def _strip(messages: Any, tokens: int, unit: float) -> dict[str, int]:
    """Tokens of messages, those of text and those of images."""
    sizes = (image.get("size") or (0, 0) for image in images_of(messages))
    visual = min(tokens, sum(round(width * height / unit) for width, height in sizes))
    return {"text": tokens - visual, "visual": visual}
