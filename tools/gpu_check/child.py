"""Run one check in this process: `python -m tools.gpu_check.child NAME RESULT FOLDER`."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import sys
import traceback
import warnings
from pathlib import Path

from docagent_rl.base.io import atomic_write
from tools.gpu_check.check import CheckError, Outcome, Result
from tools.gpu_check.machine import this_machine
from tools.gpu_check.registry import find


def main(name: str, result: Path, folder: Path) -> None:
    """Run the check and write its result.

    Any error other than `CheckError` ends the process with a traceback.
    """
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING)
    try:
        found: Result = importlib.import_module(find(name).module).run(this_machine(), folder)
    except CheckError as error:
        traceback.print_exc()
        found = Result(Outcome.FAIL, str(error))
    atomic_write(result, json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
