"""How soon the trainer sees that its trajectories are there."""

from __future__ import annotations

import time
from typing import Any

SOONEST_S = 0.05
SHARE = 0.05
"""Most of the driver's time that looking may take while it waits."""


def pause(looked_s: float, longest_s: float) -> float:
    """Seconds until the next look.

    Args:
        looked_s: what the last look took; it grows with the rows in the queue.
        longest_s: verl's own pause.
    """
    return min(longest_s, max(SOONEST_S, looked_s * (1 / SHARE - 1)))


def poll_by_cost(buffer: Any) -> None:
    """Let a replay buffer of verl look as often as it costs little; one of a user's own is left alone.

    verl looks every two seconds, and has no key for it: a step waits for one on average after its last
    trajectory has ended.

    Args:
        buffer: changed in place.
    """
    # imported late: it loads the trainer modes, which import this module
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    if not isinstance(buffer, ReplayBuffer):
        return
    look, longest = buffer._sync_metadata_from_transfer_queue, buffer.poll_interval

    def looked() -> None:
        began = time.perf_counter()
        look()
        buffer.poll_interval = pause(time.perf_counter() - began, longest)

    buffer._sync_metadata_from_transfer_queue = looked
