"""One trajectory as the page shows it: its turns, the messages with their images, and the path
through its documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.lab.viewer.credit import TrajectoryCredit
from docagent_rl.lab.viewer.features import number, trajectory_id
from docagent_rl.rollout.credit import TOKENS
from docagent_rl.rollout.evidence import evidence_of
from docagent_rl.rollout.seen_pages import PlayedTurn, gold_boxes, gold_pages, images_of, records_of
from docagent_rl.samples.sample import parse_page_id

_TOKEN_PX = 28 * 28
"""Pixels per visual token if a trajectory does not say: patches of 14, merged two by two."""
_PLAIN = (
    "step", "split", "system", "status", "end", "error", "uid", "number", "reward", "metrics",
    "sample",
    "prompt_tokens",
)  # fmt: skip
MOST_DOCUMENTS = 12
"""Most documents shown for a search over a corpus: those that matter most."""
_OPENING = frozenset({"fetch", "read", "select"})

Turn = Mapping[str, Any]
Page = tuple[str, int]


def trajectory_view(
    trajectory: Mapping[str, Any],
    *,
    store: DocumentStore | None = None,
    tokenizer: Any = None,
    credit: TrajectoryCredit | None = None,
    tokens: bool = True,
) -> dict[str, Any]:
    """Return a trajectory, JSON-ready; `tokenizer`, from the library `tokenizers`, decodes single
    tokens.
    """
    turns = trajectory["turns"]
    messages = Messages(trajectory, store)
    prompt = messages.described(trajectory.get("prompt"))
    records = records_of(trajectory)
    gold = gold_pages(trajectory["sample"])
    unit = _token_pixels(records)
    described = [
        {"number": place, **_turn(turn, record, messages, gold, unit)}
        for place, (turn, record) in enumerate(zip(turns, records, strict=True), 1)
    ]
    if tokens:
        credits = credit.turns(turns) if credit else [None] * len(turns)
        for each, turn, own in zip(described, turns, credits, strict=True):
            each["tokens"] = _tokens(turn, tokenizer, own or {})
    found = evidence_of(trajectory, records)
    return {
        "id": trajectory_id(trajectory),
        **{name: trajectory.get(name) for name in _PLAIN},
        "stage": found.stage,
        "guessed": found.guessed,
        "outcome": found.outcome,
        "document": documents(trajectory, records, store),
        "prompt": prompt,
        "prompt_strip": _strip(
            trajectory.get("prompt"), int(trajectory.get("prompt_tokens") or 0), unit
        ),
        "turns": described,
        "images": messages.images,
        "advantage": credit.advantage if credit else None,
        "credit": credit.described(turns) if credit else None,
    }


def _turn(
    turn: Turn, record: TurnRecord, messages: Messages, gold: Collection[str], unit: float
) -> dict[str, Any]:
    written = None if record.written is None else record.written.to_dict()
    strip = _strip(turn.get("observation"), int(turn.get("observation_tokens") or 0), unit)
    sampled = len(turn.get("token_ids") or ()) or int(turn.get("completion_tokens") or 0)
    of_step = {f"step/{name}": value for name, value in record.seconds.items()}
    return {
        "text": turn.get("text", ""),
        "row": turn.get("row", 0),
        "stop": turn.get("stop", ""),
        "reward": number(turn.get("reward")),
        "terms": turn.get("terms") or {},
        "valid": record.valid,
        "action": record.action.to_dict() if record.action.kind else None,
        "reason": record.reason,
        "detail": record.detail,
        "outcome": written,
        "spans": list(_spans(record)),
        "hits": _hits(turn, gold),
        "searches": turn.get("searches") or [],
        "seconds": {**(turn.get("seconds") or {}), **of_step},
        "observation": messages.described(turn.get("observation")),
        "observation_tokens": turn.get("observation_tokens", 0),
        "dropped": bool(turn.get("dropped")),
        "strip": {**strip, "sampled": sampled},
    }


def _spans(record: TurnRecord) -> Iterator[dict[str, Any]]:
    """Yield the parts of a text that the grammar parsed; a later span is inside an earlier one."""
    found = [("thought", span) for span in record.thoughts]
    found += [("note", span) for span in record.notes]
    for action in (record.action, *record.surplus):
        if action.block:
            found.append(("action" if record.valid else "invalid", action.block))
        if action.argument:
            alone = not record.valid and not action.block
            found.append(("invalid" if alone else "argument", action.argument))
    for kind, (begin, end) in found:
        yield {"kind": kind, "begin": begin, "end": end}


def _hits(turn: Turn, gold: Collection[str]) -> list[dict[str, Any]]:
    return [
        {"page": str(page), "rank": rank, "score": score, "gold": str(page) in gold}
        for search in turn.get("searches") or ()
        for rank, (page, score) in enumerate(search.get("hits") or (), 1)
    ]


def _tokens(turn: Turn, tokenizer: Any, credit: Mapping[str, list[float]]) -> dict[str, Any]:
    ids = turn.get("token_ids") or []
    decoded = tokenizer and [tokenizer.decode([each], skip_special_tokens=False) for each in ids]
    return {
        "ids": ids,
        "texts": decoded,
        "log_probs": turn.get("log_probs") or [],
        "trainer_log_probs": turn.get("trainer_log_probs"),
        **{name: credit.get(name) for name in TOKENS},
    }


def _token_pixels(records: Sequence[TurnRecord]) -> float:
    """Return the pixels per visual token, from an image whose tokens were counted."""
    for record in records:
        for view in record.effect.views:
            if view.encoder_size and view.tokens:
                return view.encoder_size[0] * view.encoder_size[1] / view.tokens
    return _TOKEN_PX


def _strip(messages: Any, tokens: int, unit: float) -> dict[str, int]:
    """Return the numbers of text tokens and of visual tokens in messages."""
    sizes = (image.get("size") or (0, 0) for image in images_of(messages))
    visual = min(tokens, sum(round(width * height / unit) for width, height in sizes))
    return {"text": tokens - visual, "visual": visual}


def pieces_of(trajectory: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every reference to a page in the images of a trajectory, including those on sheets."""
    for messages in (
        trajectory.get("prompt"),
        *(turn.get("observation") for turn in trajectory["turns"]),
    ):
        for image in images_of(messages):
            if "tiles" in image:
                yield from (tile["image"] for tile in image["tiles"])
            else:
                yield image


class Messages:
    """Describes the messages of a trajectory one by one; images are numbered from 0 in order of
    appearance.
    """

    def __init__(self, trajectory: Mapping[str, Any], store: DocumentStore | None) -> None:
        self.images = 0
        self._gold = gold_pages(trajectory["sample"])
        self._boxes = gold_boxes(trajectory["sample"])

        @cache
        def size(page: str) -> tuple[int, int] | None:
            with suppress(UserError):
                return store.page(PageRef.parse(page)).size if store else None

        self._size = size

    def described(self, messages: Any) -> list[dict[str, Any]]:
        """Return messages, JSON-ready."""
        return [
            {"role": str(message.get("role", "")), "parts": list(self._parts(message))}
            for message in messages or ()
        ]

    def _parts(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for part in message.get("parts") or ():
            image = part.get("image")
            if isinstance(image, Mapping):
                yield {"image": self.images, "size": image.get("size"), **self._image(image)}
                self.images += 1
            else:
                yield {"text": str(part.get("text", ""))}

    def _image(self, image: Mapping[str, Any]) -> dict[str, Any]:
        if "tiles" not in image:
            piece = self._piece(image)
            return {**piece, "tiles": None, "gold_boxes": self._gold_boxes(piece["page"])}
        tiles = [
            {**self._piece(tile["image"]), "at": _place(tile, image["canvas"])}
            for tile in image["tiles"]
        ]
        pages = {str(tile["page"]) for tile in tiles}
        alone = pages.pop() if len(pages) == 1 else None
        return {
            "page": alone,
            "box": tiles[0]["box"] if len(tiles) == 1 else None,
            "tiles": tiles,
            "gold": any(tile["gold"] for tile in tiles),
            "gold_boxes": self._gold_boxes(alone),
        }

    def _piece(self, image: Mapping[str, Any]) -> dict[str, Any]:
        page = str(image.get("page"))
        raster = image.get("raster")
        box = None
        size = self._size(page)
        if size is not None and isinstance(raster, Sequence) and len(raster) == 4:
            box = [end / side for end, side in zip(raster, 2 * size, strict=True)]
        return {"page": page, "box": box, "gold": page in self._gold}

    def _gold_boxes(self, page: str | None) -> list[list[float]]:
        return [list(box) for box in self._boxes.get(page or "", ())]


def _place(tile: Mapping[str, Any], canvas: Sequence[float]) -> list[float]:
    """Return the position of a tile on its sheet: left, top, width and height as fractions."""
    (left, top) = tile["at"]
    (width, height) = tile["image"]["size"]
    return [left / canvas[0], top / canvas[1], width / canvas[0], height / canvas[1]]


def documents(
    trajectory: Mapping[str, Any], records: Sequence[TurnRecord], store: DocumentStore | None
) -> list[dict[str, Any]]:
    """Return the documents that the trajectory touched: the question's own, then the others by
    importance.
    """
    sample = trajectory["sample"]
    pages = _touched(trajectory, records)
    boxes = {parse_page_id(page): found for page, found in gold_boxes(sample).items()}
    described = []
    for doc_id in _by_weight(str(sample.get("doc_id") or ""), pages)[:MOST_DOCUMENTS]:
        marked = {
            str(page): [list(box) for box in boxes[doc_id, page]] for page in _of(doc_id, boxes)
        }
        described.append(
            {
                "doc_id": doc_id,
                "pages": _length(doc_id, store, pages),
                "gold": _of(doc_id, pages.gold),
                "fetched": _of(doc_id, pages.fetched),
                "searched": _of(doc_id, pages.searched),
                "shown": _of(doc_id, pages.shown),
                "boxes": marked,
            }
        )
    return described


class Touched(NamedTuple):
    """The pages that a trajectory touched: evidence, opened by the agent, found by a search, shown
    to the agent.
    """

    gold: set[Page]
    fetched: set[Page]
    searched: set[Page]
    shown: set[Page]


def _touched(trajectory: Mapping[str, Any], records: Sequence[TurnRecord]) -> Touched:
    gold = _pages(gold_pages(trajectory["sample"]))
    fetched = set()
    searched = set()
    shown = _pages(str(piece.get("page")) for piece in pieces_of(trajectory))
    for place, (recorded, record) in enumerate(zip(trajectory["turns"], records, strict=True)):
        turn = PlayedTurn.of(recorded, record)
        seen = _pages(each.page for each in turn.seen_pages(place))
        searched |= _pages(turn.found)
        # the agent asked for these by number, whether or not they were shown to it
        if record.action.kind in _OPENING:
            fetched |= seen
        if not turn.dropped:
            shown |= seen
    return Touched(gold, fetched, searched, shown)


def _by_weight(own: str, pages: Touched) -> list[str]:
    """Return documents by importance: the question's own, those with evidence, those seen, those
    only found.
    """
    names = {own: None} if own else {}
    for some in (pages.gold, pages.fetched | pages.shown, pages.searched):
        names |= dict.fromkeys(doc_id for doc_id, _ in sorted(some))
    return list(names)


def _length(doc_id: str, store: DocumentStore | None, pages: Touched) -> int:
    """Return a document's number of pages; if it is missing, the last page that was touched."""
    with suppress(UserError):
        if store is not None:
            return store.document(doc_id).num_pages
    return max((last for some in pages for last in _of(doc_id, some)), default=0)


def _of(doc_id: str, pages: Iterable[Page]) -> list[int]:
    return sorted(page for name, page in pages if name == doc_id)


def _pages(names: Iterable[str]) -> set[Page]:
    found = set()
    for name in names:
        try:
            found.add(parse_page_id(name))
        except UserError:
            continue
    return found
