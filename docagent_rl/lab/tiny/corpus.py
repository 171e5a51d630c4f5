"""Text on which the tiny tokenizer is trained, in addition to that of a system: reports, prompts,
turns.
"""

import random
from collections.abc import Iterator

from docagent_rl.lab.agents.random_turns import OBJECTS, SUBJECTS


def _words(text: str) -> list[str]:
    return text.split()


TAG_WORDS = _words(
    "think search bbox region answer fetch select read plan analysis summary information result "
    "action "
    "retrieval_page fetch_page page box judge retrieve page_id doc_id"
)
"""Words between angle brackets, for the form of a turn. The tags of a system need not be listed:
its tokenizer also learns from its prompts and its script's turns (the `texts` of
`build_tokenizer`).
"""

VERBS = _words(
    "shows reports lists describes compares explains gives contains covers increased decreased "
    "reached fell "
    "rose remained grew doubled changed improved dropped"
)

ADJECTIVES = _words(
    "total annual average highest lowest largest smallest first second third last new old main net "
    "gross "
    "global local public private national international average quarterly monthly recent early "
    "late common"
)

PLACES = _words(
    "north south east west Europe Asia Africa America Berlin Paris London Tokyo Madrid Oslo Vienna "
    "Rome "
    "Cairo Lima Delhi Boston Chicago"
)

TIMES = _words(
    "January February March April May June July August September October November December "
    "Monday Friday quarter month year week decade"
)

COLORS = _words("red green blue yellow orange purple black white grey brown")

UNITS = _words(
    "percent million billion thousand dollars euros tonnes kilometres hours days people units"
)

PROMPT_SENTENCES = (
    "You are a helpful assistant.",
    "Answer the question by using the pages of the document that you find.",
    "Answer the given question. You must reason before every action, and again after every new "
    "information.",
    "First think about what you know and what is missing, then write exactly one action.",
    "If you lack some knowledge, you can call a search engine with a query between the tags.",
    "The user will return the image of the most relevant page that was not shown before.",
    "Every returned image may be cropped and enlarged to see details: give a bounding box in "
    "pixels of it.",
    "The box is a list of four numbers: left, top, right, bottom, with the origin in the upper "
    "left corner.",
    "You may search as many times as you want, but at most four turns are allowed.",
    "When no further knowledge is needed, give the final answer directly, short and without "
    "explanation.",
    "For example, the answer is a name, a number, a date or a few words.",
    "Your last action was not valid because it has no closed tag. Please try again.",
    "The previous output is not valid: use one action inside its opening and closing tags.",
    "The index starts at zero; select the most relevant candidate and then read it.",
    "Fetch a page by its number, or retrieve pages by a query; the outline and thumbnails are "
    "given below.",
    "Instructions, rules, limits, format, syntax, coordinates, memory, evidence and steps are "
    "given here.",
    "What is the name of the person who wrote this? How many are there? Which is larger? When, "
    "where, why?",
    "It does not contain the answer, so I need another page. I should look closer at this part.",
    "I will search for it. I have enough evidence to answer now. The table is small, so I zoom "
    "into it.",
    "The value in the table is the same as before. The figure shows the numbers. A chart has a "
    "legend.",
    "yes no true false none both all left right top bottom center",
)


def sentences(seed: int = 0, count: int = 5000) -> Iterator[str]:
    """Yield `count` lines; the same `seed` gives the same lines."""
    rng = random.Random(seed)
    kinds = (
        _report_line,
        _turn_line,
        _question_line,
        _turn_line,
        lambda rng: rng.choice(PROMPT_SENTENCES),
    )
    for index in range(count):
        yield kinds[index % len(kinds)](rng)


def _report_line(rng: random.Random) -> str:
    subject = rng.choice(SUBJECTS)
    other = rng.choice(SUBJECTS)
    number = rng.choice(
        [rng.randrange(100), rng.randrange(1900, 2030), round(rng.random() * 100, 1)]
    )
    return (
        f"The {rng.choice(ADJECTIVES)} {subject} of {rng.choice(PLACES)} {rng.choice(VERBS)} "
        f"{number} "
        f"{rng.choice(UNITS)} in {rng.choice(TIMES)}, and the {rng.choice(COLORS)} "
        f"{rng.choice(OBJECTS)} "
        f"{rng.choice(VERBS)} the {other} for {rng.randrange(1980, 2030)} "
        f"({rng.choice(OBJECTS)} {rng.randrange(40)})."
    )


def _question_line(rng: random.Random) -> str:
    opening = rng.choice(
        ("What is", "What was", "How many", "Which is", "In which page is", "According to")
    )
    return (
        f"{opening} the {rng.choice(ADJECTIVES)} {rng.choice(SUBJECTS)} {rng.choice(OBJECTS)} "
        f"in {rng.choice(PLACES)} in {rng.randrange(1980, 2030)}? Question: {rng.choice(SUBJECTS)}"
    )


def _turn_line(rng: random.Random) -> str:
    tag = rng.choice(TAG_WORDS)
    word = rng.choice(SUBJECTS)
    numbers = ", ".join(str(rng.randrange(220)) for _ in range(4))
    argument = rng.choice(
        (word, f"{word} {rng.choice(OBJECTS)}", f"[{numbers}]", str(rng.randrange(100)))
    )
    return (
        f"<think>I need the {word}.</think><{tag}>{argument}</{tag}> <{tag}> </{tag}> <{tag}>{word}"
    )
