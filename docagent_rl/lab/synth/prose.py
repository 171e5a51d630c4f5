"""Paragraphs without figures: what a report says between its facts."""

from __future__ import annotations

import random

_OPENERS = (
    "The {adjective} work of {subject} continued throughout the year",
    "For {subject}, the year brought {adjective} progress",
    "{subject} kept to the plan that had been agreed with the board",
    "Much of the attention of {subject} went to {topic}",
    "The management of {subject} reviewed {topic} in detail",
    "Conditions for {subject} remained {adjective}",
    "At {subject}, {topic} took up more time than expected",
)
_REASONS = (
    "as {topic} became more important",
    "although {topic} had to wait until the autumn",
    "and {topic} was handled with {adjective} care",
    "while {topic} was moved to a later phase",
    "because partners asked for {adjective} solutions",
    "even though resources for {topic} stayed scarce",
    "after {topic} had been settled in the spring",
)
_FOLLOWERS = (
    "This made {topic} easier to plan.",
    "Teams met every month to discuss {topic} and to agree on the next steps.",
    "The results were {adjective}, and the approach will be kept.",
    "A {adjective} review of {topic} is under way.",
    "Feedback from users on {topic} was {adjective} on the whole.",
    "External advisers described {topic} as {adjective}.",
    "Further measures concern {topic}, which remains a priority.",
    "Where needed, responsibilities for {topic} were defined more clearly.",
    "The lessons from {topic} were written down and shared with all teams.",
)
_TOPICS = (
    "the renewal of equipment", "the exchange of data between sites", "the recruitment of trainees",
    "the reduction of waste", "the quality of documentation", "the safety of visitors",
    "the introduction of digital forms", "the cooperation with suppliers", "the planning of shifts",
    "the protection of groundwater", "the maintenance of older buildings", "the response to emergencies",
    "the training of supervisors", "the comparison of tenders", "the insulation of roofs",
    "the calibration of instruments", "the archive of technical drawings", "the dialogue with residents",
)  # fmt: skip
_ADJECTIVES = (
    "steady", "careful", "welcome", "mixed", "thorough", "practical", "satisfactory", "moderate",
    "reliable", "balanced", "demanding", "stable", "promising",
)  # fmt: skip


def paragraph(rng: random.Random, subject: str, sentences: int) -> str:
    """A paragraph of `sentences` sentences about `subject`, without a digit in it."""
    opener = f"{rng.choice(_OPENERS)}, {rng.choice(_REASONS)}."
    # no topic twice in one paragraph: it would read like a stutter
    topics = rng.sample(_TOPICS, len(_TOPICS))
    templates = [opener, *rng.sample(_FOLLOWERS, min(sentences - 1, len(_FOLLOWERS)))]
    text = " ".join(_fill(rng, template, subject, topics) for template in templates)
    return text[0].upper() + text[1:]


def _fill(rng: random.Random, template: str, subject: str, topics: list[str]) -> str:
    while "{topic}" in template:
        template = template.replace("{topic}", topics.pop(), 1)
    while "{adjective}" in template:
        template = template.replace("{adjective}", rng.choice(_ADJECTIVES), 1)
    return template.replace("{subject}", subject)
