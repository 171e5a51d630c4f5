"""A chain of stages: finished ones are skipped, and the first failure ends the chain."""

import difflib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.folder_lock import folder_locked
from docagent_rl.base.io import atomic_write
from docagent_rl.lab.stages.earlier import begin_work
from docagent_rl.lab.stages.marker import (
    FOLDER,
    StageState,
    input_digests,
    log_file,
    state,
    write_marker,
)
from docagent_rl.lab.stages.processes import Services, ending_by_sigterm, run_in_bash
from docagent_rl.lab.stages.stage import ChainStage, Service

_OWNER = "chain.json"
"""The file that names the chain to which a workspace belongs."""
_INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages in the order in which they run."""

    name: str
    """The name of the chain; a workspace belongs to one chain."""
    stages: Sequence[ChainStage]
    workspace: Path
    """The folder that all of them work in; it also contains markers and logs."""
    resume_command: str
    """The command that resumes the chain."""
    services: Sequence[Service] = ()

    def chosen(self, names: Sequence[str]) -> list[ChainStage]:
        """Return the stages with these names in the chain's order; all if no name is given.

        Raises:
            UserError: there is no such stage; the nearest one is named.
        """
        known = [stage.name for stage in self.stages]
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise UserError(f"there is no stage {name!r}: {hint}known are {', '.join(known)}")
        return [stage for stage in self.stages if not names or stage.name in names]

    def run(self, names: Sequence[str] = ()) -> None:
        """Run the unfinished stages among these, by default all of them.

        Raises:
            UserError: a stage failed, has to be done by hand, or lacks an input; or the workspace
                has files of another origin, or another process is working in it.
        """
        stages = self.chosen(names)
        folder = self.workspace / FOLDER
        services = Services(self.services, folder)
        with folder_locked(folder, f"workspace {self.workspace}"), ending_by_sigterm():
            self._claim(folder / _OWNER)
            try:
                for number, stage in enumerate(stages, start=1):
                    self._run(stage, f"[{number}/{len(stages)}] {stage.name}", services)
            finally:
                services.end()

    def _claim(self, owner: Path) -> None:
        """Make the workspace this chain's, so that no stage overwrites what others have made.

        Raises:
            UserError: it belongs to another chain, or has outputs of stages from elsewhere.
        """
        if owner.exists():
            found = self._read_owner(owner)
            if found != self.name:
                raise UserError(
                    f"workspace {self.workspace} belongs to the chain {found!r}, and this is "
                    f"{self.name!r}: use another workspace"
                )
            return
        made = (path for stage in self.stages if stage.command for path in stage.outputs)
        if foreign := [str(path) for path in made if path.exists()]:
            raise UserError(
                f"workspace {self.workspace} already contains {', '.join(foreign)}, which this "
                "chain would overwrite: use another workspace, or move them away"
            )
        atomic_write(owner, json.dumps({"chain": self.name}) + "\n")

    def _read_owner(self, owner: Path) -> str:
        """Return the chain to which the workspace belongs.

        Raises:
            UserError: the file that names it is damaged.
        """
        try:
            return str(json.loads(owner.read_bytes())["chain"])
        except (ValueError, KeyError, TypeError) as error:
            content = json.dumps({"chain": self.name})
            raise UserError(
                f"{owner} is damaged: if this chain filled the workspace, write {content} to it"
            ) from error

    def _run(self, stage: ChainStage, head: str, services: Services) -> None:
        found = state(stage, self.workspace)
        if found is StageState.DONE:
            print(f"{head}: done", flush=True)
            return
        if stage.command is None:
            waited = ", ".join(str(path) for path in stage.outputs if not path.exists())
            raise UserError(
                f"stage {stage.name} has to be done by hand: {stage.by_hand}\n  It is done when "
                f"{waited} exists. Then run\n  {self.resume_command}"
            )
        if lost := [str(path) for path in stage.inputs if not path.exists()]:
            raise UserError(
                f"stage {stage.name} reads {', '.join(lost)}, which does not exist; earlier "
                f"stages create it:\n  {self.resume_command}"
            )
        print(f"{head}: {stage.title} ({found})\n$ {stage.command}", flush=True)
        self._prepare(stage, found)
        began = time.monotonic()
        inputs = input_digests(stage, self.workspace)
        services.ensure(stage.services)
        try:
            status = run_in_bash(stage.command, stage.environment, log_file(stage, self.workspace))
        except KeyboardInterrupt:
            status = _INTERRUPTED
        if status:
            self._fail(stage, f"ended with status {status}")
        if lost := [str(path) for path in stage.outputs if not path.exists()]:
            self._fail(stage, f"ended without {', '.join(lost)}")
        seconds = time.monotonic() - began
        write_marker(stage, self.workspace, inputs, seconds)
        print(f"{head}: done in {seconds:,.0f} s", flush=True)

    def _prepare(self, stage: ChainStage, found: StageState) -> None:
        """Set aside work that the stage must not resume, and name outputs that it may reuse."""
        if set_aside := begin_work(stage, self.workspace):
            print(f"earlier work with other settings or inputs is now in {set_aside}", flush=True)
        there = [str(path) for path in stage.outputs if path.exists()]
        if there and found in (StageState.COMMAND, StageState.INPUTS):
            print(
                f"from an earlier run with another command or other inputs: {', '.join(there)} "
                "(resumed where possible, else written again; start from scratch by removing it)",
                flush=True,
            )

    def _fail(self, stage: ChainStage, how: str) -> None:
        raise UserError(
            f"stage {stage.name} {how}; its log is {log_file(stage, self.workspace)}. "
            f"To resume, run\n  {self.resume_command}"
        )
