"""Run programs with verl's engines on one rank or several; rank 0 prints a line of JSON."""

import json
import os
import subprocess
import time
from pathlib import Path

TIMEOUT_S = 900


def last_report(python: Path, module: str, folder: Path, ranks: int = 1) -> dict:
    """Run a module of the tests on every rank with the folder as its argument; return the last line
    that rank 0 prints.

    Each rank has a machine of its own. They meet in a file: a free port may be taken before it is
    opened.
    """
    shared = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
        "DIST_INIT_METHOD": f"file://{folder}/meeting",
        "VERL_PLATFORM": "cpu",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    processes = []
    for rank in range(ranks):
        with (folder / f"{rank}.out").open("w") as out, (folder / f"{rank}.err").open("w") as err:
            command = [python, "-m", module, str(folder)]
            environment = {**os.environ, **shared, "RANK": str(rank)}
            processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=environment))
    codes = _ended(processes)
    errors = "".join((folder / f"{rank}.err").read_text()[-3000:] for rank in range(ranks))
    assert codes == [0] * ranks, errors
    return json.loads((folder / "0.out").read_text().splitlines()[-1])


def _ended(processes: list[subprocess.Popen]) -> list[int | None]:
    """Wait for all processes; a failure or the deadline ends the others, which would wait
    forever.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    codes = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    return codes
