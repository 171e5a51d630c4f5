"""The wish that a run end, which a scheduler sends as SIGTERM before it takes the machine away.

The driver hands it on in Ray's key-value store, which the trainer reads on whatever node it is, and
the trainer leaves its answer there: a folder that nodes share can show a new file a minute late.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import ray
from ray._private import worker as ray_worker
from ray.exceptions import RayError
from ray.experimental import internal_kv

from docagent_rl.base.text import tell
from docagent_rl.checkpoints.manifest import read_tracker, step_folder
from docagent_rl.watch.processes import RUN_VARIABLE

REQUEUE = os.EX_TEMPFAIL
"""Exit status 75 of a run that was asked to end and goes on when it is started again."""
_NAMESPACE = "docagent"
_ASK_AGAIN_S = 1.0


def _key(name: str) -> str:
    """Return the name of a value of this start; a cluster that goes on keeps those of earlier
    ones.
    """
    return f"{name}/{os.environ.get(RUN_VARIABLE, '')}"


def _put(name: str) -> None:
    internal_kv._internal_kv_put(_key(name), b"1", namespace=_NAMESPACE)


def _is_put(name: str) -> bool:
    return internal_kv._internal_kv_exists(_key(name), namespace=_NAMESPACE)


class StopSignal:
    """SIGTERM in the driver, which Ray would answer by ending all of its processes.

    Args:
        stop_s: seconds that a step may go on; the checkpoint has as many again.
        checkpoints: the run's folder of checkpoints.
    """

    def __init__(self, stop_s: float, checkpoints: Path) -> None:
        self._stop_s = stop_s
        self._checkpoints = checkpoints
        self._signals = 0
        self._since: float | None = None
        self._handed_on = False

    @property
    def came(self) -> bool:
        """True once a signal came."""
        return self._signals > 0

    def listen(self) -> None:
        """Take SIGTERM, from the main thread, and take it back from Ray when that has started."""
        self._take()
        ray_worker._post_init_hooks.append(self._take)

    def _take(self) -> None:
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1  # all else is for another thread: the main one may be anywhere

    def look(self) -> str | None:
        """Hand the wish on; return a message once the run has to end whatever it is doing."""
        if not self._signals:
            return None
        now = time.monotonic()
        if self._since is None:
            self._since = now
            tell(
                "SIGTERM: the run ends with this step, whose rollout is given up in "
                f"{self._stop_s:g} s "
                "(docagent.watch.stop_s), saves a checkpoint and exits with status "
                f"{REQUEUE}; another SIGTERM ends it at once"
            )
        if self._signals > 1:
            return f"ended at once by a second SIGTERM: {self.prospect()}"
        if not ray.is_initialized():
            return f"ended by SIGTERM before Ray has started: {self.prospect()}"
        if now - self._since >= 2 * self._stop_s:
            return (
                f"SIGTERM came {now - self._since:.0f} s ago, and the run has not come to an end "
                "(twice "
                f"docagent.watch.stop_s={self._stop_s:g}): it is ended, and {self.prospect()}"
            )
        if not self._handed_on:
            _put("stop")
            self._handed_on = True
        return None

    def obeyed(self) -> bool:
        """Return whether the trainer ended for the wish, and not because all steps are done."""
        with suppress(RayError):
            return self._handed_on and ray.is_initialized() and _is_put("stopped")
        return False

    def prospect(self) -> str:
        """Return where the run goes on from when it is started again."""
        try:
            step = read_tracker(self._checkpoints)
        except ValueError:
            step = None
        if step is None:
            return "without a checkpoint, the same command starts from the beginning"
        return f"the same command goes on from {step_folder(self._checkpoints, step)}"


class StopWish:
    """The trainer's view of the wish; a step may go on for `stop_s` seconds."""

    def __init__(self, stop_s: float) -> None:
        self._stop_s = stop_s
        self._since: float | None = None
        self._next = 0.0

    @property
    def asked(self) -> bool:
        """True once the run is asked to end."""
        now = time.monotonic()
        if self._since is None and now >= self._next and internal_kv._internal_kv_initialized():
            self._next = now + _ASK_AGAIN_S
            with suppress(RayError):  # of a store that cannot be reached now
                if _is_put("stop"):
                    self._since = now
        return self._since is not None

    @property
    def overdue(self) -> bool:
        """True once the time for the step is over."""
        return (
            self.asked
            and self._since is not None
            and time.monotonic() - self._since >= self._stop_s
        )

    def obey(self) -> None:
        """Tell the driver that the run ends for the wish."""
        _put("stopped")
