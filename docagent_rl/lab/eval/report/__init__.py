"""Reports on scored runs: numbers beside the paper's, intervals, breakdowns, paired comparisons.

Everything but the writing of files is pure (`docs/report.md`).
"""
