"""Synthetic documents whose correct answers are known by construction."""

from docagent_rl.lab.synth.generate import synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty, QuestionKind, SynthSettings

__all__ = ["DocumentDifficulty", "QuestionKind", "SynthSettings", "synthesize"]
