"""Stop requests: a scheduler sends SIGTERM before it takes the machine away.

The driver passes the request on through Ray's key-value store, which the trainer can read on any
node, and the trainer confirms it there. A shared folder would be too slow: it can show a new file a
minute late.
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
"""Exit status 75: the run was asked to stop, and resumes when it is started again."""
_NAMESPACE = "docagent"
_ASK_AGAIN_S = 1.0


def _key(name: str) -> str:
    """Return the key of a value of this start; a long-lived cluster keeps those of earlier
    starts.
    """
    return f"{name}/{os.environ.get(RUN_VARIABLE, '')}"


def put_value(name: str, value: bytes = b"1") -> None:
    """Write a value of this start, which all of its processes can read."""
    internal_kv._internal_kv_put(_key(name), value, namespace=_NAMESPACE)


def get_value(name: str) -> bytes | None:
    """Return a value of this start; `None` if it has not been written."""
    return internal_kv._internal_kv_get(_key(name), namespace=_NAMESPACE)


def _is_put(name: str) -> bool:
    return internal_kv._internal_kv_exists(_key(name), namespace=_NAMESPACE)


class StopSignal:
    """The driver's handler for SIGTERM; Ray's own would end all of its processes.

    Args:
        stop_s: seconds that a step may continue; the checkpoint gets the same time again.
        checkpoints: the run's folder of checkpoints.
    """

    def __init__(self, stop_s: float, checkpoints: Path) -> None:
        self._stop_s = stop_s
        self._checkpoints = checkpoints
        self._signals = 0
        self._since: float | None = None
        self._passed_on = False

    @property
    def received(self) -> bool:
        """True as soon as a signal has arrived."""
        return self._signals > 0

    def listen(self) -> None:
        """Handle SIGTERM; call it in the main thread. It is handled anew after Ray has started."""
        self._install_handler()
        ray_worker._post_init_hooks.append(self._install_handler)

    def _install_handler(self) -> None:
        signal.signal(signal.SIGTERM, self._count)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1  # another thread does the rest: the main one may be anywhere

    def look(self) -> str | None:
        """Pass the request on; return a message if the run has to end now, whatever it is doing."""
        if not self._signals:
            return None
        now = time.monotonic()
        if self._since is None:
            self._since = now
            tell(
                "SIGTERM: the run finishes this step, saves a checkpoint and exits with "
                f"status {REQUEUE}. If the step's rollout takes longer than {self._stop_s:g} s "
                "(docagent.watch.stop_s), it is abandoned. A second SIGTERM ends the run at once"
            )
        if self._signals > 1:
            return f"ended at once by a second SIGTERM: {self.prospect()}"
        if not ray.is_initialized():
            return f"ended by SIGTERM before Ray had started: {self.prospect()}"
        if now - self._since >= 2 * self._stop_s:
            return (
                f"the run did not end within {now - self._since:.0f} s of SIGTERM (twice "
                f"docagent.watch.stop_s={self._stop_s:g}), so it was killed: {self.prospect()}"
            )
        if not self._passed_on:
            put_value("stop")
            self._passed_on = True
        return None

    def confirmed(self) -> bool:
        """Return whether the trainer ended because of the request, not because it was done."""
        with suppress(RayError):
            return self._passed_on and ray.is_initialized() and _is_put("stopped")
        return False

    def prospect(self) -> str:
        """Return a sentence that says where the run resumes when it is started again."""
        try:
            step = read_tracker(self._checkpoints)
        except ValueError:
            step = None
        if step is None:
            return "there is no checkpoint, so the same command starts from the beginning"
        return f"the same command resumes from {step_folder(self._checkpoints, step)}"


class StopRequest:
    """The trainer's view of a stop request; a step may continue for `stop_s` seconds."""

    def __init__(self, stop_s: float) -> None:
        self._stop_s = stop_s
        self._since: float | None = None
        self._next = 0.0

    @property
    def asked(self) -> bool:
        """True as soon as the run has been asked to stop."""
        now = time.monotonic()
        if self._since is None and now >= self._next and internal_kv._internal_kv_initialized():
            self._next = now + _ASK_AGAIN_S
            with suppress(RayError):  # the key-value store is not reachable right now
                if _is_put("stop"):
                    self._since = now
        return self._since is not None

    @property
    def overdue(self) -> bool:
        """True as soon as the time for the step is over."""
        return (
            self.asked
            and self._since is not None
            and time.monotonic() - self._since >= self._stop_s
        )

    def confirm(self) -> None:
        """Tell the driver that the run ends because it was asked to."""
        put_value("stopped")
