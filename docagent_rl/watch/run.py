"""The watch over a run: a thread of the driver, begun and ended by Hydra."""

import inspect
import logging
import os
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import ray
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from ray._private import worker as ray_worker
from ray.exceptions import ActorDiedError, ActorUnavailableError, NodeDiedError, RayError

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import clean, tell, traceback_text
from docagent_rl.config import DocAgentConfig, WatchConfig, plain_section
from docagent_rl.console.channel import ReportReceiver
from docagent_rl.console.failing import reason
from docagent_rl.console.overview import next_commands
from docagent_rl.console.run_console import run_console
from docagent_rl.watch.actors import (
    AGAIN,
    Queue,
    death_messages,
    free_resources,
    kill_own_actors,
    read_actors,
    waiting_groups,
)
from docagent_rl.watch.engines import Engines
from docagent_rl.watch.processes import RUN_VARIABLE, Descendants
from docagent_rl.watch.stopping import REQUEUE, StopSignal

logger = logging.getLogger(__name__)

GRACE_S = 10.0
"""Seconds that a run has to end by itself, its loggers closed, after a death in it."""
_LAST_S = 15.0
_FINAL_LOOK_S = 3.0
_AGAIN_S = 1.0
_TICK_S = 0.5
"""Between two looks for a signal."""
_LONGEST = 300
NODE_S = 40.0
"""Ray calls a node dead some 15 s after its last sign of life; before, its actors are
unavailable.
"""
SILENT_S = 30.0
"""Ray itself ends a driver about a minute after its control service (GCS) has died."""
TRACEBACK_FILE = "failure_traceback.txt"
_BUSY = (
    "the machine may be too busy, or short of memory, of processes or of room in /tmp (Ray's logs "
    "are in "
    "/tmp/ray/session_latest/logs); `ray stop` ends what an earlier start left; then give the same "
    "command "
    "again"
)
_RAY_INIT = inspect.unwrap(ray.init).__code__


class Watch:
    """A watch over the run that the main thread of this process waits for."""

    def __init__(self, config: WatchConfig, checkpoints: Path) -> None:
        self._interval = config.interval_s
        self.stop_signal = StopSignal(config.stop_s, checkpoints)
        self._engines = Engines(config.engine_timeout_s)
        self._queue = Queue(config.pending_s)
        self._family = Descendants()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="docagent-watch", daemon=True)
        self._asking_since: float | None = None
        """When the question to Ray that is not answered yet was asked; `None` between questions."""
        self.trouble: str | None = None

    def start(self) -> None:
        """Begin, in the main thread; Ray may start later."""
        self.stop_signal.listen()
        self._thread.start()
        threading.Thread(
            target=self._listen_for_silence, name="docagent-silence", daemon=True
        ).start()

    def stop(self) -> None:
        """End the watch: the run has ended."""
        self._ended.set()
        self._thread.join(timeout=_LAST_S)

    def look_once_more(self, patience_s: float = 0.0) -> str | None:
        """Return what a failed run died of, if something died: verl's error may come before the
        next look.

        It looks again every second for `patience_s` seconds.
        """
        until = time.monotonic() + patience_s
        while self.trouble is None and ray.is_initialized():
            self.trouble = self._look(wait_s=_FINAL_LOOK_S)
            if self.trouble or time.monotonic() >= until:
                break
            time.sleep(_AGAIN_S)
        return self.trouble

    def end_processes(self) -> None:
        """End Ray, if it is the run's own, and every process that the run has started."""
        self._family.look()
        ray.shutdown()
        self._family.end()

    def _watch(self) -> None:
        next_look = time.monotonic() + self._interval
        while not self._ended.wait(min(self._interval, _TICK_S)):
            if overdue := self._overdue():
                self._end_now(overdue, REQUEUE)
            if time.monotonic() < next_look or not ray.is_initialized():
                continue
            next_look = time.monotonic() + self._interval
            self._family.look()
            self.trouble = self._look()
            if self.trouble:
                self._end_run(self.trouble)
                return

    def _listen_for_silence(self) -> None:
        """Say that Ray does not answer: a question to a service that is gone never returns."""
        while not self._ended.wait(_TICK_S):
            since = self._asking_since
            if since is not None and time.monotonic() - since >= SILENT_S:
                tell(
                    f"Ray's control service (GCS) has not answered for {SILENT_S:.0f} s. If it is "
                    "gone, Ray "
                    f"ends this process in about a minute, with a line of its own. {AGAIN}"
                )
                return

    @contextmanager
    def _asking(self) -> Generator[None]:
        self._asking_since = time.monotonic()
        try:
            yield
        finally:
            self._asking_since = None

    def _overdue(self) -> str | None:
        try:
            with self._asking():
                return self.stop_signal.look()
        except RayError as error:  # of a store that cannot be reached now
            logger.debug("the wish to end could not be handed on: %s", error)
            return None

    def _look(self, wait_s: float = 0.0) -> str | None:
        try:
            with self._asking():
                actors = read_actors()
                return (
                    death_messages(actors)
                    or self._engines.look(actors, wait_s)
                    or self._queue.overdue(actors, waiting_groups(), free_resources())
                )
        except (RayError, ValueError, RuntimeError) as error:
            # Ray that is about to start or to end; an actor that went between two questions
            logger.debug("the watch could not look: %s", error)
            return None

    def _end_run(self, trouble: str) -> None:
        """Let the run end by itself, or make what the main thread waits for end, or end this
        process.
        """
        if self._ended.wait(GRACE_S):
            return
        kill_own_actors()
        if self._ended.wait(_LAST_S):
            return
        self._end_now(trouble, 1)

    def _end_now(self, message: str, status: int) -> NoReturn:
        self._family.look()
        self._family.end()
        if (console := run_console()) is not None:
            console.show_tail()
        tell(clean(message))
        os._exit(status)


class RunWatch(Callback):
    """Hydra callback of every recipe: a run in which something died ends with one message, status
    1.
    """

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._reports: ReportReceiver | None = None

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Begin to watch, after the checks."""
        section = DocAgentConfig.parse(plain_section(config.docagent))
        self._watch = Watch(section.watch, Path(str(config.trainer.default_local_dir)).absolute())
        self._watch.start()
        if (console := run_console()) is not None:
            ray_worker._post_init_hooks.append(partial(console.begin, "trainer"))
            self._reports = ReportReceiver(os.environ[RUN_VARIABLE], console.handle)
            self._reports.begin()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Replace an error by the death that caused it.

        Raises:
            SystemExit: something had died, the trainer found that it cannot work as it is set up,
                or it was asked to end (status 75).
        """
        if self._watch is None:
            return
        self._watch.stop()
        if self._reports is not None:
            self._reports.end()
        console = run_console()
        if job_return.status is not JobStatus.FAILED:
            # of an earlier start, which this one went on from
            (Path(config.docagent.run_dir) / TRACEBACK_FILE).unlink(missing_ok=True)
            obeyed = self._watch.stop_signal.obeyed()
            # a worker of vLLM can hang in its shutdown, with all its memory
            self._watch.end_processes()
            if obeyed:
                tell(f"ended as SIGTERM asked: {self._watch.stop_signal.prospect()}")
                raise SystemExit(REQUEUE)
            if console is not None:
                console.finish(next_commands(config, Path(config.docagent.run_dir)))
            return
        error = job_return._return_value
        if isinstance(error, UserError):  # of the trainer, in words that need no traceback
            _end(self._watch, str(getattr(error, "cause", error)), job_return, config, 1)
        if isinstance(error, Exception) and _is_of_rays_start(error):
            _end(self._watch, _no_ray(error), job_return, config, 1)
        # Ray lost an actor, and not because an exception ended its creation
        lost = isinstance(error, ActorDiedError) and not error.actor_init_failed
        unreachable = lost or isinstance(error, ActorUnavailableError | NodeDiedError)
        trouble = self._watch.look_once_more(NODE_S if unreachable else 0.0)
        if trouble is None and unreachable:
            # without ids and the traceback that the error of a task holds
            lines = str(getattr(error, "cause", error)).strip().splitlines()
            said = " ".join(line for line in lines if not line.startswith("\t"))[:_LONGEST]
            trouble = f"a part of the run cannot be reached: {said}\n  {AGAIN}"
        if trouble is None and console is not None and isinstance(error, BaseException):
            trouble = reason(error)
        if trouble:
            # a scheduler may have signalled every process of the run
            status = REQUEUE if self._watch.stop_signal.came else 1
            _end(self._watch, trouble, job_return, config, status)


def _is_of_rays_start(error: Exception) -> bool:
    """Return whether `ray.init` raised it: the error of a Ray that does not come up in time has no
    type.
    """
    return any(frame.f_code is _RAY_INIT for frame, _ in traceback.walk_tb(error.__traceback__))


def _no_ray(error: Exception) -> str:
    wrong_settings = isinstance(error, TypeError | ValueError)
    remedy = "correct ray_kwargs.ray_init" if wrong_settings else _BUSY
    lines = str(error).strip().splitlines() or [""]
    return f"Ray did not start ({type(error).__name__}: {lines[0][:_LONGEST]}): {remedy}"


def _end(
    watch: Watch, trouble: str, job_return: JobReturn, config: DictConfig, status: int
) -> NoReturn:
    error = job_return._return_value
    if isinstance(error, BaseException):
        with suppress(OSError):
            file = Path(config.docagent.run_dir) / TRACEBACK_FILE
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(traceback_text(error), encoding="utf-8")
            trouble = f"{trouble}\n  what the trainer said: {file}"
    watch.end_processes()
    if (console := run_console()) is not None:
        console.show_tail()
    tell(clean(trouble))
    raise SystemExit(status) from None
