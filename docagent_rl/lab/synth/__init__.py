"""Synthetic documents whose truth is known by construction."""

from docagent_rl.lab.synth.generate import synthesize
from docagent_rl.lab.synth.settings import Difficulty, QuestionKind, SynthSettings

__all__ = ["Difficulty", "QuestionKind", "SynthSettings", "synthesize"]
