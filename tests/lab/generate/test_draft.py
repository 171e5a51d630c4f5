from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.lab.generate.draft import _same, repeated
from docagent_rl.samples.leakage import alike_pairs
from docagent_rl.samples.sample import Sample, Split

WORDS = ["what", "was", "the", "revenue", "of", "Kantora", "in", "2019", "2020", "harbour", "total", "year"]
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from(["K", "M"]),
        st.lists(st.sampled_from(WORDS), min_size=4, max_size=9).map(" ".join),
        st.sampled_from(["", "4", "5", "teal"]),
    ),
    max_size=12,
)


def samples(rows, start=0) -> list[Sample]:
    return [
        Sample(
            f"q{number}", "made", Split.TRAIN, doc, text, (answer,) * bool(answer), answerable=bool(answer)
        )
        for number, (doc, text, answer) in enumerate(rows, start)
    ]


@settings(max_examples=40)
@given(QUESTIONS, QUESTIONS)
def test_no_two_that_are_kept_say_the_same(rows, others):
    made, known = samples(rows), samples(others, 100)
    found = repeated(made, known)
    kept = [sample for place, sample in enumerate(made) if place not in found]
    for first, second, _ in alike_pairs(kept, [*kept, *known], 90):
        assert first is second or not _same(first, second)
    # each that goes repeats one that stays, or one that is known
    said = {sample.question for sample in (*kept, *known)}
    assert set(found.values()) <= said
    assert repeated(kept, known) == {}
    # what is known only ever takes more away
    for place in repeated(made, []):
        # what repeated an earlier one goes still, unless that one went first
        assert place in found or any(earlier < place for earlier in found)


def test_the_same_words_about_two_years_are_two_questions():
    rows = [
        ("K", "What was the revenue of the harbour of Kantora in 2019?", "4"),
        ("K", "What was the revenue of the harbour of Kantora in 2020?", "5"),
        ("K", "what was the revenue of the harbour of Kantora, in 2019", "4 million"),
        ("M", "What was the revenue of the harbour of Kantora in 2019?", "4"),
        ("K", "What was the revenue of the large harbour of Kantora in 2019?", ""),
    ]
    assert set(repeated(samples(rows), [])) == {2}
