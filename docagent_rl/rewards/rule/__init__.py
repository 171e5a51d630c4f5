"""The parts of the rule judge: frames, spelling, words, quantities, dates, questions, claims,
verdicts.
"""
