"""Questions that say what an earlier one says."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.records.leakage import alike_pairs, answer_words, question_words
from docagent_rl.records.record import Record


def repeated(records: Sequence[Record], known: Sequence[Record], threshold: float) -> dict[int, str]:
    """Find questions that repeat one that is known, or an earlier one that is kept.

    Alike are questions about one document that are made of the same words (`data leakage`). Two that differ
    in a number and in their answers ask for different things: the revenue of one year and of the next. So do
    one that has an answer and one that has none, in other words.

    Returns:
        By the place of a question that is to be dropped, the question that it repeats.
    """
    places = {id(record): place for place, record in enumerate(records)}
    pairs = (
        (places[id(first)], places[id(second)])
        for first, second, _ in alike_pairs(records, records, threshold)
        if _same(first, second)
    )
    found = repeating(records, known, threshold)
    for place, earlier in sorted(pairs):
        if earlier < place and earlier not in found:
            found.setdefault(place, records[earlier].question)
    return found


def repeating(
    records: Sequence[Record], known: Sequence[Record], threshold: float, *, templates: bool = False
) -> dict[int, str]:
    """Find questions that repeat one that is known, as `repeated` does.

    Questions of `templates` share most of their words by their making: they repeat only what has the same
    answer, and one without an answer only what has the same words.
    """
    places = {id(record): place for place, record in enumerate(records)}
    found: dict[int, str] = {}
    for first, second, _ in alike_pairs(records, known, threshold):
        if _same(first, second) and (not templates or _same_answer(first, second)):
            found.setdefault(places[id(first)], second.question)
    return found


def _same(first: Record, second: Record) -> bool:
    if first.doc_id != second.doc_id:
        return False
    apart = set(question_words(first.question)) ^ set(question_words(second.question))
    if first.answerable != second.answerable:
        return not apart
    numbers = any(character.isdigit() for word in apart for character in word)
    return not numbers or (bool(first.answers) and answer_words(first) == answer_words(second))


def _same_answer(first: Record, second: Record) -> bool:
    if first.answers or second.answers:
        return answer_words(first) == answer_words(second)
    return set(question_words(first.question)) == set(question_words(second.question))
