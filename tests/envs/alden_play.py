"""Turns of ALDEN, as a policy would write them."""

from __future__ import annotations

THOUGHT = "<think>look</think>"


def search(query: str) -> str:
    return f"{THOUGHT}<search>{query}</search>"


def fetch(page: object) -> str:
    return f"{THOUGHT}<fetch>{page}</fetch>"


def answer(text: str) -> str:
    return THOUGHT + r"<answer>The final answer is \boxed{" + text + "}</answer>"


def lines(result) -> list[str]:
    """What an observation says, an image as its page."""
    (message,) = result.observation.messages
    said: list[str] = []
    for part in message.parts:
        said += [str(part.image.page)] if hasattr(part, "image") else part.text.strip().split("\n")
    return said
