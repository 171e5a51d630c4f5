"""Scripted episodes in the grammar of VRAG-RL: what a warmed-up tiny model learns to imitate.

They teach the form of a turn and nothing else. Queries borrow words from the question, answers are often the
reference, boxes are arbitrary; a few turns are malformed, so that environments meet invalid actions too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np
from PIL import Image

from docagent_rl.errors import UserError
from docagent_rl.testing.corpus import OBJECTS, SUBJECTS
from docagent_rl.testing.encoding import Conversation

Prompt = Callable[[str], list[dict[str, Any]]]
"""From a question to the messages before the first assistant turn."""

PAGE_SIZES = ((112, 140), (140, 112), (112, 168), (168, 112), (140, 140), (112, 112))
"""Widths and heights in pixels; all multiples of 28, so 16 to 24 visual tokens."""

FEEDBACK = "Your last action was not valid. Use exactly one action inside its opening and closing tags."

MAX_ASSISTANT_TURNS = 4


class Move(Enum):
    """What an assistant turn does."""

    SEARCH = "search"
    BBOX = "bbox"
    ANSWER = "answer"
    MALFORMED = "malformed"


FIRST_MOVES = {Move.SEARCH: 0.82, Move.ANSWER: 0.13, Move.MALFORMED: 0.05}
"""Before any image: nothing can be cropped yet."""

LATER_MOVES = {Move.SEARCH: 0.26, Move.BBOX: 0.36, Move.ANSWER: 0.33, Move.MALFORMED: 0.05}

THOUGHTS = {
    Move.SEARCH: ("I need the {}.", "I will search for the {}."),
    Move.BBOX: ("I look closer at the {}.", "I zoom into the {}."),
    Move.ANSWER: ("The {} shows the answer.", "I have enough evidence."),
    Move.MALFORMED: ("I see the {}.",),
}


COMMON_WORDS = ("page", "table", "section", "report", "total", "year", "figure", "list", "part", "main")
"""Words that most documents hold: a model this small misspells borrowed words, and would find nothing."""


def vrag_rl_transcripts(
    prompt: Prompt, questions: Sequence[tuple[str, str]], seed: int, *, feedback: str = FEEDBACK
) -> Iterator[Conversation]:
    """Yield conversations without end, the same for the same arguments.

    Args:
        prompt: builds the opening messages, with the environment's own wording.
        questions: pairs of a question and its reference answer.
        seed: of all choices, images included.
        feedback: text of the user turn that follows a malformed turn.

    Raises:
        UserError: there are no questions.
    """
    if not questions:
        raise UserError("warm-up transcripts need at least one (question, answer) pair")
    rng = random.Random(seed)
    while True:
        question, answer = rng.choice(questions)
        yield _episode(prompt(question), question, answer, feedback, rng)


def page_image(rng: random.Random) -> Image.Image:
    """Return a small picture that looks like a page: coloured paper with dark lines and a block."""
    width, height = rng.choice(PAGE_SIZES)
    paper = [rng.randrange(150, 256) for _ in range(3)]
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    pixels[:] = paper
    for top in range(10, height - 10, rng.randrange(8, 16)):
        pixels[top : top + 3, 8 : rng.randrange(width // 2, width - 6)] = rng.randrange(90)
    left, top = rng.randrange(width // 2), rng.randrange(height // 2)
    pixels[top : top + height // 3, left : left + width // 3] = [rng.randrange(256) for _ in range(3)]
    return Image.fromarray(pixels)


def _episode(
    opening: list[dict[str, Any]], question: str, answer: str, feedback: str, rng: random.Random
) -> list[dict[str, Any]]:
    messages = list(opening)
    has_image = False
    for turn in range(MAX_ASSISTANT_TURNS):
        moves = LATER_MOVES if has_image else FIRST_MOVES
        is_last = turn == MAX_ASSISTANT_TURNS - 1
        move = Move.ANSWER if is_last else rng.choices(list(moves), list(moves.values()))[0]
        messages.append({"role": "assistant", "content": _turn(move, question, answer, rng)})
        if move is Move.ANSWER:
            break
        if move is Move.MALFORMED:
            messages.append({"role": "user", "content": feedback})
        else:
            messages.append({"role": "user", "content": [{"type": "image", "image": page_image(rng)}]})
            has_image = True
    return messages


def _turn(move: Move, question: str, answer: str, rng: random.Random) -> str:
    words = _content_words(question)
    subject = rng.choice(words)
    thought = (
        f"<think>{rng.choice(THOUGHTS[move]).format(rng.choice((subject, rng.choice(OBJECTS))))}</think>"
    )
    if move is Move.SEARCH:
        borrowed = rng.sample(words, min(len(words), rng.randint(1, 2)))
        query = " ".join([*borrowed, *rng.sample(COMMON_WORDS, rng.randint(1, 2))])
        return f"{thought}<search>{query}</search>"
    if move is Move.BBOX:
        return f"{thought}<bbox>{_box(rng)}</bbox>"
    if move is Move.ANSWER:
        guess = answer if rng.random() < 0.7 else rng.choice((subject, str(rng.randrange(100))))
        return f"{thought}<answer>{guess}</answer>"
    return _malformed(thought, subject, rng)


def _malformed(thought: str, word: str, rng: random.Random) -> str:
    return rng.choice(
        (
            thought,
            f"{thought}<search>{word}",
            f"{thought}<answer>{word}",
            f"{thought}<bbox>[{rng.randrange(10, 50, 10)}, {rng.randrange(10, 50, 10)}]</bbox>",
            f"I do not know the {word}.",
        )
    )


def _box(rng: random.Random) -> list[int]:
    """Draw a box whose corners have two and three digits and end in 0.

    A box then stays valid when its digits are sampled one by one, and a 0 is the end of a number.
    """
    near = range(10, 50, 10)
    far = (*range(110, 200, 10), 210)
    return [rng.choice(near), rng.choice(near), rng.choice(far), rng.choice(far)]


def _content_words(question: str) -> list[str]:
    """Return the question's words of four letters or more, or common words when it has none."""
    words = [word.strip(".,;:!?\"'()[]<>") for word in question.split()]
    return [word for word in words if len(word) >= 4] or list(SUBJECTS[:8])
