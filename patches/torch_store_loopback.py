"""The store of a process group listens only on loopback if its address is 127.0.0.1.

Upstream: torch 2.11.0, `torch/distributed/rendezvous.py`, `_create_c10d_store`, with which the
workers of verl and vLLM create process groups. `TCPStore` listens on all interfaces, whatever its
address is, and has no authentication: anyone who can reach the port can read and write what the
processes exchange.

The patch only affects runs for which `docagent_rl/training/loopback.py` has set a variable.

No longer needed once the store only listens at its own address.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from types import ModuleType
from typing import Any

from docagent_rl.patches.ray_loopback import LOOPBACK, LOOPBACK_VARIABLE
from docagent_rl.training.patching import SERVING, TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    original = module._create_c10d_store

    def _create_c10d_store(
        hostname: str,
        port: int,
        rank: int,
        world_size: int,
        timeout: timedelta,
        use_libuv: bool = True,
    ) -> Any:
        """Create the store as torch does, but let its host only listen at the store's address."""
        hosts = rank == 0 and not module._torchelastic_use_agent_store()
        listener = _listener(port) if hosts and hostname == LOOPBACK else None
        if listener is None:
            return original(hostname, port, rank, world_size, timeout, use_libuv)
        return module.TCPStore(
            host_name=hostname,
            port=port,
            world_size=world_size,
            is_master=True,
            timeout=timeout,
            multi_tenant=True,
            use_libuv=use_libuv,
            master_listen_fd=listener.detach(),
        )

    replace(module, "_create_c10d_store", _create_c10d_store)


def _listener(port: int) -> socket.socket | None:
    """Return a socket that listens on loopback; None if the run does not want it or the port is
    used.

    The port is used if this process already has a store there, which torch then shares.
    """
    if not (port and os.environ.get(LOOPBACK_VARIABLE)):
        return None
    try:
        return socket.create_server((LOOPBACK, port), backlog=2048)
    except OSError:
        return None


PATCH = Patch(
    name="torch_store_loopback",
    package="torch",
    versions="==2.11.0",
    reference="torch/distributed/rendezvous.py::_create_c10d_store",
    reason="the store of every process group listens on all interfaces, without a password",
    target_module="torch.distributed.rendezvous",
    apply=_apply,
    processes=TRAINING | SERVING,
)
