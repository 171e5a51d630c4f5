"""The console of a training run: stages of its start, steps, validations, and its end."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from docagent_rl.base.first_line import printed_at, release_warnings
from docagent_rl.base.text import counted, one_line, tell_listeners, visible
from docagent_rl.console.capture import LOG, Capture
from docagent_rl.console.numbers import (
    Numbers,
    duration,
    is_step,
    is_validation,
    step_line,
    validation_comparison,
)

if TYPE_CHECKING:
    from docagent_rl.console.channel import Report

SLOW_S = 20.0
"""Seconds after which a slow activity gets a line of its own if the output is not a terminal."""
TAIL = 12
"""Number of lines of the log that are shown before the error of a failed run."""
_RECENT = 20
"""Number of recent steps from whose mean time the rest is estimated."""
_LONGEST = 240
_WIDTH = 120


class RunConsole:
    """The lines that a run prints; on a terminal, the last line shows the current activity.

    Threads can share it.

    Args:
        capture: receives everything that other code prints.
        run_dir: folder of the run; a resumed run has the numbers of earlier validations there.
    """

    def __init__(self, capture: Capture, run_dir: Path) -> None:
        self._capture = capture
        self._run_dir = run_dir
        self._out = _console(capture.out)
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._began = time.monotonic()
        self._stage: str | None = None
        self._stage_began = self._began
        self._looking = ""
        self._looking_since = self._began
        self._named = False
        self._total: int | None = None
        self._steps: list[tuple[int, float]] = []
        """Reported steps with their times; the first is the step that the run started from."""
        self._rewards: list[tuple[int, float]] = []
        self._validation: tuple[int, Numbers] | None = None
        self._spoken = False
        """True once one of our errors has been shown."""
        self._ended = threading.Event()
        tell_listeners.append(self._tell)
        atexit.register(self._leave)
        threading.Thread(target=self._name_slow, name="docagent-slow", daemon=True).start()

    @property
    def log(self) -> Path:
        """The file that receives everything that other code prints."""
        return self._capture.path

    def line(self, text: str) -> None:
        """Print a line."""
        self._print(Text(visible(text)))

    def fact(self, name: str, text: str) -> None:
        """Print a line about the run, with a label."""
        self.line(f"  {name:<10}{text}")

    def warn(self, text: str) -> None:
        """Print the first line of a warning; the log contains all of it."""
        first = one_line(text.strip().partition("\n")[0])
        self.line(f"  warning: {first if len(first) <= _LONGEST else f'{first[:_LONGEST]}…'}")

    def begin(self, stage: str, since: float | None = None) -> None:
        """Begin a stage of the start-up, now or at `since`; end the previous one, and print how
        long it took.
        """
        with self._lock:
            self.end_stage()
            self._stage = stage
            self._stage_began = time.monotonic() if since is None else since
        self.look("")

    def end_stage(self) -> None:
        """End the current stage, if there is one."""
        with self._lock:
            if self._stage is not None:
                took = time.monotonic() - self._stage_began
                self.line(f"  {self._stage:<28}{took:6.1f} s")
            self._stage = None
            self._show("")

    def look(self, what: str) -> None:
        """Name the current activity: on a terminal at once, otherwise only if it takes long."""
        with self._lock:
            self._looking = what
            self._looking_since = time.monotonic()
            self._named = False
            self._show(self._going_on())

    def handle(self, report: Report) -> None:
        """Show a report of the trainer: a stage, an activity, a warning, or numbers."""
        kind = report["kind"]
        if kind == "stage":
            self.begin(report["name"])
        elif kind == "look":
            self.end_stage()
            self.look(report["name"])
            self._restart_clock()
        elif kind == "ready":
            self.ready(int(report["step"]), int(report["total"]))
        elif kind == "warning":
            self.warn(report["text"])
        elif kind == "numbers":
            self.numbers(int(report["step"]), report["numbers"])

    def plan(self, total: int | None) -> None:
        """Set the number of steps of the run if it is known before training begins."""
        self._total = total

    def ready(self, step: int, total: int | None) -> None:
        """Begin training after `step` of `total` steps."""
        with self._lock:
            self.end_stage()
            self.plan(total)
            self._steps = [(step, time.monotonic())]
            if step > 0:
                self.line(f"  resumed from step {step}")

    def numbers(self, step: int, numbers: Numbers) -> None:
        """Show the numbers of a step, of a validation, or of both together."""
        with self._lock:
            self.end_stage()
            if is_step(numbers):
                self.line(step_line(step, self._total, numbers, self._left(step)))
                reward = numbers.get("docagent/reward/total", numbers.get("critic/score/mean"))
                if reward is not None:
                    self._rewards.append((step, reward))
            if is_validation(numbers):
                before = self._validation or earlier_validation(self._run_dir, step)
                self._print(validation_comparison(step, numbers, before))
                self._validation = step, numbers

    def finish(self, commands: Sequence[str]) -> None:
        """Print a summary of the run and the commands to type next."""
        with self._lock:
            self.end_stage()
            done = self._steps[-1][0] - self._steps[0][0] if self._steps else 0
            took = duration(time.monotonic() - self._began)
            self.line(f"{counted(done, 'step')} in {took}{self._course()}")
            if commands:
                self.line("next:")
            for command in commands:
                self.line(f"  {command}")
        self.close()

    def show_tail(self) -> None:
        """Print the end of the log, before the error of a failed run."""
        lines = self._capture.tail(TAIL)
        with self._lock:
            self._stop_live()
            self._stage = None
            if lines:
                self.line(f"last lines of {self.log}:")
            for each in lines:
                self.line(f"  | {each}")

    def close(self) -> None:
        """Stop showing activities; our own messages are still shown."""
        self._ended.set()
        with self._lock:
            self._stop_live()
            self._spoken = True

    def _restart_clock(self) -> None:
        """Let the first step begin now, without the validation before it."""
        with self._lock:
            if len(self._steps) == 1:
                self._steps[0] = self._steps[0][0], time.monotonic()

    def _course(self) -> str:
        if len(self._rewards) < 2:
            return ""
        first, before = self._rewards[0]
        last, after = self._rewards[-1]
        return f"; reward {before:.3f} at step {first}, {after:.3f} at step {last}"

    def _left(self, step: int) -> float | None:
        if not self._steps:  # a trainer that does not report when it is ready
            self._steps.append((step - 1, self._looking_since))
        self._steps.append((step, time.monotonic()))
        # the differences of the last _RECENT steps have one more end point
        recent = self._steps[-_RECENT - 1 :]
        first, began = recent[0]
        last, now = recent[-1]
        if self._total is None or last <= first or step >= self._total:
            return None
        return (now - began) / (last - first) * (self._total - step)

    def _print(self, what: RenderableType) -> None:
        # a terminal or pipe that was closed must not end the run
        with self._lock, suppress(OSError):
            self._out.print(what, soft_wrap=True)

    def _tell(self, message: str) -> None:
        """Show one of our messages (`base.text.tell`) on the original standard error."""
        with self._lock:
            self._stop_live()
            self._spoken = True
            with suppress(OSError):
                print(message, file=self._capture.err, flush=True)

    def _going_on(self) -> str:
        return ": ".join(filter(None, (self._stage, self._looking)))

    def _show(self, text: str) -> None:
        """Show the current activity in the last line, if the output is a terminal."""
        if not self._out.is_terminal or self._ended.is_set():
            return
        if not text:
            self._stop_live()
            return
        spinner = Spinner("dots", Text(one_line(text)))
        if self._live is not None:
            self._live.update(spinner)
            return
        # otherwise rich would print the output of other code here instead of in the log
        self._live = Live(
            spinner,
            console=self._out,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _name_slow(self) -> None:
        while not self._ended.wait(1.0):
            with self._lock:
                text = self._going_on()
                waited = time.monotonic() - self._looking_since
                if self._stage is None or self._named or waited < SLOW_S:
                    continue
                self._named = True
                if not self._out.is_terminal:
                    self.line(f"  … {text}")

    def _leave(self) -> None:
        """Say that the process ends early, unless one of our messages has said so."""
        with self._lock:
            self._stop_live()
            if not self._spoken:
                self.line(f"the run ended early; its log is {self.log}")


def earlier_validation(run_dir: Path, step: int) -> tuple[int, Numbers] | None:
    """Return step and numbers of the last validation before `step` that a run's folder contains."""
    steps = [
        int(number)
        for path in run_dir.glob("metrics/val-*.json")
        if (number := path.stem.removeprefix("val-")).isdecimal() and int(number) < step
    ]
    if not steps:
        return None
    try:
        text = (run_dir / "metrics" / f"val-{max(steps)}.json").read_text(encoding="utf-8")
        return max(steps), json.loads(text)
    except (OSError, ValueError):
        return None


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


_open: RunConsole | None = None
_captured = False


def open_console(run_dir: Path, name: str) -> RunConsole:
    """Send the output of this process to `<run_dir>/console.log`, and open the run's console.

    Args:
        run_dir: the folder of the run, absolute.
        name: the run's name, for the heading of the log.
    """
    global _open, _captured
    _captured = True
    capture = Capture(run_dir / LOG, f"{name}, process {os.getpid()}")
    release_warnings()
    _open = RunConsole(capture, run_dir)
    if (since := printed_at()) is not None:
        _open.begin("imports", since)
    return _open


def capture_output(run_dir: Path) -> None:
    """Send the output of another process of a run to its log; our own messages are still shown."""
    global _captured
    _captured = True
    capture = Capture(run_dir / LOG, f"process {os.getpid()}")
    release_warnings()

    def show(message: str) -> None:
        print(message, file=capture.err, flush=True)

    tell_listeners.append(show)


def output_is_captured() -> bool:
    """Return whether the output of this process goes to the log of a run."""
    return _captured


def run_console() -> RunConsole | None:
    """Return the console of the run that this process drives; `None` if there is none."""
    return _open


def looking_at(what: str) -> None:
    """Name the current activity if this process has a console."""
    if _open is not None:
        _open.look(what)
