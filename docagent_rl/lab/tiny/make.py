"""`python -m docagent_rl.lab.tiny.make SYSTEM WORKSPACE`: make a system's tiny model."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.lab.tiny.build import build_model_for
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.systems import get_system


def make_tiny_model(arguments: Sequence[str] | None = None) -> None:
    """Make the tiny model of the system that the arguments name, unless it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system")
    parser.add_argument("workspace", type=Path)
    given = parser.parse_args(arguments)
    path = DemoPaths(given.workspace).model(given.system)
    if not (path / "config.json").is_file():
        family = get_system(given.system).model_family
        build_model_for(path, given.system, None, family=family, progress=False)


if __name__ == "__main__":
    make_tiny_model()
