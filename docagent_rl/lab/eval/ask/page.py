"""A trajectory as one HTML page that needs nothing else: no script, no other file, no network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image, ImageDraw

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import visible
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.images import jpeg, render
from docagent_rl.lab.eval.ask.answer import RESTS_ON_NOTHING, Answered, Evidence, action_of
from docagent_rl.lab.sft.ledgers import read_picture
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn

_TEMPLATE = Path(__file__).with_name("trajectory.html.j2")
_WIDEST = 1400
"""Pixels of a page of the evidence; larger ones are reduced."""
_QUALITY = 85


def trajectory_page(trajectory: Trajectory, found: Answered, store: DocumentStore, about: str) -> str:
    """Return the page: question, answer, evidence with its regions marked, and every turn with its images.

    Texts of documents and models are never markup, and control characters are spelt out. `about` is a line on
    the player.

    Raises:
        UserError: the store holds other pages than were shown.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, finalize=lambda value: visible(str(value))
    )
    source = _TEMPLATE.read_text(encoding="utf-8")
    style = source.partition("<style>")[2].partition("</style>")[0]
    return environment.from_string(source).render(
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        question=trajectory.sample.get("question", ""),
        answer=found.text,
        why_not=found.why_not,
        about=about,
        evidence=[_marked(item, store) for item in found.evidence],
        rests_on_nothing=RESTS_ON_NOTHING,
        turns=[_turn(turn, store) for turn in trajectory.turns],
    )


def _turn(turn: TrajectoryTurn, store: DocumentStore) -> dict[str, Any]:
    parts = []
    for part in (part for message in turn.observation for part in message.get("parts") or ()):
        if "image" in part:
            picture = read_picture(part["image"])
            name = f"{', '.join(map(str, picture.pages))} as the agent saw it"
            parts.append(_image(render(picture, store), name))
        else:
            parts.append({"image": None, "text": part.get("text", "")})
    return {"text": turn.text, "action": action_of(turn.info), "shown": parts, "dropped": turn.dropped}


def _marked(item: Evidence, store: DocumentStore) -> dict[str, Any]:
    if item.page.doc_id not in store:
        raise UserError(f"{store} has no document {item.page.doc_id!r}")
    image = store.page(item.page).image().convert("RGB")
    if image.width > _WIDEST:
        image = image.resize((_WIDEST, max(1, round(image.height * _WIDEST / image.width))))
    draw = ImageDraw.Draw(image)
    for left, top, right, bottom in item.regions:
        box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
        draw.rectangle(box, outline=(200, 0, 0), width=max(2, image.width // 250))
    name = f"{item.page.doc_id}, page {item.page.page}"
    return {**_image(image, name), "why": item.why.value}


def _image(image: Image.Image, name: str) -> dict[str, Any]:
    data = base64.b64encode(jpeg(image, quality=_QUALITY)).decode("ascii")
    source = f"data:image/jpeg;base64,{data}"
    return {"image": source, "name": name, "width": image.width, "height": image.height}
