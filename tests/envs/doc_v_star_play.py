"""Turns and looks of Doc-V* that several test modules share."""

from __future__ import annotations

from docagent_rl.envs.base import TextPart


def turn(act, relevant=None, *, summary="found", analysis="a"):
    """A whole turn: the first one when nothing is said about relevant pages."""
    second = "<plan>p</plan>" if relevant is None else f"<relevant_pages>{relevant}</relevant_pages>"
    blocks = f"<analysis>{analysis}</analysis>{second}<summary>{summary}</summary>"
    return f"<think>{blocks}</think><action>{act}</action>"


def retrieve(query, relevant=None, **more):
    return turn(f"<retrieval_page>{query}</retrieval_page>", relevant, **more)


def fetch(pages, relevant=None, **more):
    return turn(f"<fetch_page>{pages}</fetch_page>", relevant, **more)


def answer(text="blue", relevant="", **more):
    return turn(f"<answer>{text}</answer>", relevant, **more)


def texts(observation):
    return "".join(part.text for m in observation.messages for part in m.parts if isinstance(part, TextPart))


def shown(result):
    return [image.page.page for image in result.observation.images]
