"""A plan as a file of Docker Compose, for one machine."""

from collections.abc import Sequence
from typing import Any

import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.checks.placement.demand import Needs
from docagent_rl.checks.placement.plan import Plan
from docagent_rl.checks.placement.start import (
    DEVICES,
    Hosts,
    PlannedProcess,
    planned_servers,
    planned_trainer,
    trainer_devices,
)

_HEAD = """\
# {recipe}: its servers, then its trainer. Start it with
#   DOCAGENT_WORKSPACE=/path/to/workspace docker compose -f FILE up --abort-on-container-exit
# Image: docker build -f docker/Dockerfile.gpu -t docagent-rl:gpu .
# Models come from the hub's cache of the host. Written by `docagent-rl recipes plan`; not run here.
"""
_HUB = "/hub"
_WORKSPACE = "/workspace"
_LOADING = {"interval": "10s", "timeout": "5s", "retries": 180}
"""Half an hour to load weights."""


def compose_file(needs: Needs, plan: Plan, seen: int, overrides: Sequence[str] = ()) -> str:
    """Return the text of the file; `seen` are the bytes of a GPU that programs see.

    Raises:
        UserError: the plan has several nodes, which Compose does not start.
    """
    if plan.nodes > 1:
        raise UserError(
            f"the plan has {plan.nodes} nodes, but Docker Compose starts containers on one "
            "machine: use --format slurm, or fewer GPUs"
        )
    hosts = Hosts(several=False)
    servers = planned_servers(plan, seen, hosts.listening)
    services = {
        start.name: _service(start, start.environment[DEVICES].split(","), start.after)
        | {"healthcheck": {"test": _health(start), **_LOADING}}
        for start in servers
    }
    trainer = planned_trainer(needs, plan, hosts, overrides)
    devices = [str(gpu) for gpu in trainer_devices(plan)]
    services["trainer"] = _service(trainer, devices, [start.name for start in servers])
    services["trainer"]["volumes"].append(
        f"${{DOCAGENT_WORKSPACE:?set it to the folder of the workspace}}:{_WORKSPACE}"
    )
    content = yaml.safe_dump({"services": services}, sort_keys=False, width=110)
    return _HEAD.format(recipe=needs.recipe) + content


def _service(start: PlannedProcess, devices: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """Return a container on some GPUs, which it sees under numbers from 0."""
    environment = {name: value for name, value in start.environment.items() if name != DEVICES}
    gpus = {"driver": "nvidia", "device_ids": list(devices), "capabilities": ["gpu"]}
    found: dict[str, Any] = {
        "image": "docagent-rl:gpu",
        # `$` would begin a variable of Compose
        "command": [word.replace("$", "$$") for word in start.words],
        "environment": {"HF_HOME": _HUB, **environment},
        "volumes": [f"${{HOME}}/.cache/huggingface:{_HUB}"],
        # loopback addresses and shared memory of the machine
        "network_mode": "host",
        "ipc": "host",
        "deploy": {"resources": {"reservations": {"devices": [gpus]}}},
    }
    if after:
        found["depends_on"] = {name: {"condition": "service_healthy"} for name in after}
    return found


def _health(start: PlannedProcess) -> list[str]:
    """Return a command that succeeds when a server answers; the image has no curl."""
    address = f"http://127.0.0.1:{start.port}/health"
    return ["CMD", "python", "-c", f"import urllib.request as u; u.urlopen('{address}', timeout=4)"]
