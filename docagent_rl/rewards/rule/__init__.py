"""The parts of the rule judge.

They cover framing phrases, spelling, words, quantities, dates, questions, claims and verdicts.
"""
