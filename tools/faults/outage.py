"""Count the trajectories that failing judges and roles mask, by end and number of turns.

python -m tools.faults.outage

Every trajectory is made twice with the same script, once with failing services and once with all
services working, which shows the reward that a masked trajectory would have got.
"""

from __future__ import annotations

import gc
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from statistics import fmean

from docagent_rl.rollout.trajectory import Trajectory
from tests.crowd.play import Crowd, keep_packages
from tests.crowd.service import Service, overrides
from tests.crowd.world import make_world

RECIPES = ("vrag_rl_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b")
FAILING = 0.3
TRAJECTORIES = 128
SEED = 3


def main() -> None:
    """Print the mean rewards and masked shares for each recipe."""
    keep_packages()
    logging.getLogger("docagent_rl").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        gc.freeze()
        for recipe in RECIPES:
            well, failing = (play(world, recipe, broken) for broken in (0.0, FAILING))
            print(recipe, *lines(well, [each.masked for each in failing]), sep="\n  ", flush=True)


def play(world: object, recipe: str, broken: float) -> list[Trajectory]:
    """Make all trajectories while the share `broken` of the requests to services fails."""
    with Service(broken=broken) as service:
        crowd = Crowd(
            world, recipe, overrides(recipe.partition("_qwen")[0], service.url), seed=SEED
        )
        return [each.trajectory for each in crowd.together(range(TRAJECTORIES))]


def lines(well: Sequence[Trajectory], masked: Sequence[bool]) -> list[str]:
    """Return lines with the mean reward without and with masking, and the masked shares by kind."""
    kept = [t.reward for t, gone in zip(well, masked, strict=True) if not gone]
    mean = f"mean reward {fmean(t.reward for t in well):+.3f}, of those kept {fmean(kept):+.3f}"
    return [
        mean,
        *shares(well, masked, lambda t: t.end),
        *shares(well, masked, lambda t: len(t.turns)),
    ]


def shares(
    well: Sequence[Trajectory], masked: Sequence[bool], kind: Callable[[Trajectory], Hashable]
) -> list[str]:
    """Return a line for each kind of trajectory: their number, and the share that was masked."""
    found = defaultdict(list)
    for trajectory, gone in zip(well, masked, strict=True):
        found[kind(trajectory)].append(gone)
    return [
        f"{name!s:>12}: {len(each):4d} {fmean(each):6.1%}" for name, each in sorted(found.items())
    ]


if __name__ == "__main__":
    main()
