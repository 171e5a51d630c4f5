"""Start Ray as verl does, and the services that ask Ray for an address; record who listens where.

python listeners.py REPORT OVERRIDE...
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

REPORT = "LISTENERS_REPORT"


def listening() -> list[tuple[str, str]]:
    """Return the address and process name of every listening socket of processes in this process's
    folder.
    """
    names = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is somebody else's
            if process.cwd() == str(Path.cwd()):
                names[process.pid] = process.name()
    return sorted(
        (connection.laddr.ip, names[connection.pid])
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid in names
    )


async def serve(config) -> None:
    """Start the services of a run, without models, and record where they listen."""
    import ray
    import torch.distributed
    import transfer_queue
    from fastapi import FastAPI
    from verl.single_controller.base.worker import WorkerHelper
    from verl.workers.rollout.utils import run_uvicorn
    from vllm.utils.network_utils import get_ip

    transfer_queue.init(config.transfer_queue)
    node = ray.util.get_node_ip_address()
    _, server = await run_uvicorn(FastAPI(), None, node)
    found = listening()
    os.environ["WG_BACKEND"] = "ray"
    master, port = WorkerHelper().get_available_master_addr_port()
    os.environ.update(MASTER_ADDR=master, MASTER_PORT=port, RANK="0", WORLD_SIZE="1")
    before = {connection.laddr.port for connection in psutil.Process().net_connections("inet")}
    torch.distributed.init_process_group("gloo")
    gloo = [
        connection.laddr.ip
        for connection in psutil.Process().net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port not in before
    ]
    torch.distributed.destroy_process_group()
    server.cancel()
    report = {"node": node, "vllm": get_ip(), "gloo": gloo, "listening": found}
    Path(os.environ[REPORT]).write_text(json.dumps(report))


class Runner:
    """A replacement for verl's TaskRunner."""

    def run(self, config) -> None:
        """Serve for a moment."""
        asyncio.run(serve(config))


def main(report: str, overrides: list[str]) -> None:
    """Run as `python -m verl.trainer.main_ppo` would."""
    import ray
    from verl.trainer.main_ppo import run_ppo

    from docagent_rl.checks.recipe_check import composed_recipe
    from docagent_rl.training.loopback import keep_to_loopback

    os.environ[REPORT] = report
    config = composed_recipe("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu", *overrides])
    keep_to_loopback(config)
    run_ppo(config, ray.remote(num_cpus=1)(Runner))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
