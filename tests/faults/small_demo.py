"""`docagent-rl demo` in small: two reports, and a model that hardly learns."""

from __future__ import annotations

import sys
from pathlib import Path

from docagent_rl.cli import reported
from docagent_rl.synth import SynthSettings
from docagent_rl.synth.settings import Difficulty
from docagent_rl.tiny.demo import prepare_demo

if __name__ == "__main__":
    with reported():
        prepare_demo(
            Path(sys.argv[1]),
            synthetic=SynthSettings(documents=2, seed=5, difficulties=(Difficulty.EASY,), val_fraction=0.5),
            warm_up={"short_steps": 1, "full_steps": 1, "pool": 4},
        )
