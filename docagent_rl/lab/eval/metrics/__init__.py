"""Official metrics of the benchmarks, quirks included: pure functions of answers and pages.

`docs/metrics.md` has where each comes from and what it does that others would not. Scores are in
`[0, 1]`; `None` is a number without meaning for a question, which means leave out. Nothing raises
on a model's text.
"""
