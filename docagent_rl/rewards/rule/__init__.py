"""The parts of the rule judge: spelling, words, quantities, dates, questions, claims."""
