from docagent_rl.lab.generate.draft import find_repeats
from docagent_rl.samples.sample import Sample, Split


def samples(rows, start=0) -> list[Sample]:
    return [
        Sample(
            f"q{number}",
            "made",
            Split.TRAIN,
            doc,
            text,
            (answer,) * bool(answer),
            answerable=bool(answer),
        )
        for number, (doc, text, answer) in enumerate(rows, start)
    ]


def test_the_same_words_about_two_years_are_two_questions():
    rows = [
        ("K", "What was the revenue of the harbour of Kantora in 2019?", "4"),
        ("K", "What was the revenue of the harbour of Kantora in 2020?", "5"),
        ("K", "what was the revenue of the harbour of Kantora, in 2019", "4 million"),
        ("M", "What was the revenue of the harbour of Kantora in 2019?", "4"),
        ("K", "What was the revenue of the large harbour of Kantora in 2019?", ""),
    ]
    assert set(find_repeats(samples(rows), [])) == {2}
    assert set(find_repeats(samples(rows[1:]), samples(rows[:1], 100))) == {1}
