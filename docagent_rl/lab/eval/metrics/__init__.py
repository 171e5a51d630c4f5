"""Official metrics of the benchmarks, including their quirks: pure functions of answers and pages.

`docs/metrics.md` says where each comes from and which of its results may surprise. Scores are in
`[0, 1]`; `None` means that a number is undefined for a question and should be left out. No text
that a model writes makes them raise.
"""
