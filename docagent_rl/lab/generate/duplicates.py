"""Questions that say what an earlier one says."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.samples.leakage import alike_pairs, answer_words, question_words
from docagent_rl.samples.sample import Sample


def repeated(samples: Sequence[Sample], known: Sequence[Sample], threshold: float) -> dict[int, str]:
    """Find questions that repeat one that is known, or an earlier one that is kept.

    Alike are questions about one document that are made of the same words (`data leakage`). Two that differ
    in a number and in their answers ask for different things: the revenue of one year and of the next. So do
    one that has an answer and one that has none, in other words.

    Returns:
        By the place of a question that is to be dropped, the question that it repeats.
    """
    places = {id(sample): place for place, sample in enumerate(samples)}
    pairs = (
        (places[id(first)], places[id(second)])
        for first, second, _ in alike_pairs(samples, samples, threshold)
        if _same(first, second)
    )
    found = repeating(samples, known, threshold)
    for place, earlier in sorted(pairs):
        if earlier < place and earlier not in found:
            found.setdefault(place, samples[earlier].question)
    return found


def repeating(
    samples: Sequence[Sample], known: Sequence[Sample], threshold: float, *, templates: bool = False
) -> dict[int, str]:
    """Find questions that repeat one that is known, as `repeated` does.

    Questions of `templates` share most of their words by their making: they repeat only what has the same
    answer, and one without an answer only what has the same words.
    """
    places = {id(sample): place for place, sample in enumerate(samples)}
    found: dict[int, str] = {}
    for first, second, _ in alike_pairs(samples, known, threshold):
        if _same(first, second) and (not templates or _same_answer(first, second)):
            found.setdefault(places[id(first)], second.question)
    return found


def _same(first: Sample, second: Sample) -> bool:
    if first.doc_id != second.doc_id:
        return False
    apart = set(question_words(first.question)) ^ set(question_words(second.question))
    if first.answerable != second.answerable:
        return not apart
    numbers = any(character.isdigit() for word in apart for character in word)
    return not numbers or (bool(first.answers) and answer_words(first) == answer_words(second))


def _same_answer(first: Sample, second: Sample) -> bool:
    if first.answers or second.answers:
        return answer_words(first) == answer_words(second)
    return set(question_words(first.question)) == set(question_words(second.question))
