"""Questions that say what an earlier one says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from docagent_rl.records.leakage import alike_pairs, question_words
from docagent_rl.records.record import Record


def repeated(records: Sequence[Record], known: Sequence[Record], threshold: float) -> dict[int, str]:
    """Which questions repeat one that is known, or an earlier one that is kept.

    Alike are questions about one document that are made of the same words (`data leakage`). Two that differ
    in a number and in their answers ask for different things: the revenue of one year and of the next. So do
    one that has an answer and one that has none, in other words.

    Args:
        records: in the order in which they are kept.
        known: others, which none may repeat.
        threshold: token-set similarity, 0 to 100.

    Returns:
        By the place of a question that is to be dropped, the question that it repeats.
    """
    places = {id(record): place for place, record in enumerate(records)}
    earlier: dict[int, list[int]] = defaultdict(list)
    for first, second, _ in alike_pairs(records, records, threshold):
        if places[id(second)] < places[id(first)] and _same(first, second):
            earlier[places[id(first)]].append(places[id(second)])
    found = repeating(records, known, threshold)
    for place in range(len(records)):
        for other in sorted(earlier[place]):
            if other not in found:
                found.setdefault(place, records[other].question)
    return found


def repeating(
    records: Sequence[Record], known: Sequence[Record], threshold: float, *, templates: bool = False
) -> dict[int, str]:
    """As `repeated`, of questions that are known alone.

    Args:
        records: questions.
        known: others, which they may repeat.
        threshold: token-set similarity from which they do.
        templates: the questions share most of their words by their making; they repeat only what has the
            same answer, and one without an answer only what has the same words.
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
    ours, theirs = set(question_words(first.question)), set(question_words(second.question))
    if first.answerable != second.answerable:
        return ours == theirs
    apart = any(character.isdigit() for word in ours ^ theirs for character in word)
    return not apart or (bool(first.answers) and _answers(first) == _answers(second))


def _same_answer(first: Record, second: Record) -> bool:
    if first.answers or second.answers:
        return _answers(first) == _answers(second)
    return set(question_words(first.question)) == set(question_words(second.question))


def _answers(record: Record) -> frozenset[str]:
    return frozenset(" ".join(question_words(answer)) for answer in record.answers)
