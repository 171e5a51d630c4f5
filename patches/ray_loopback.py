"""Ray listens on loopback when it is told to.

Upstream: Ray 2.60.0, `ray/_private/services.py`, `resolve_ip_for_localhost`. `ray.init` puts the
address of the network in the place of `_node_ip_address="127.0.0.1"`, and then the GCS, the raylet,
the object manager, every worker and the metrics agent listen on all interfaces. With 127.0.0.1 as
the node's address, which Ray itself takes on macOS and Windows, all of them listen there alone.

Only a run that `docagent_rl/training/loopback.py` told so is changed, in its driver and, by
inheritance, in the processes of its Ray.

Unneeded once `ray.init` keeps a loopback address.
"""

from __future__ import annotations

import os
from types import ModuleType

from docagent_rl.training.patching import TRAINING, Patch, replace

LOOPBACK = "127.0.0.1"
LOOPBACK_VARIABLE = "DOCAGENT_LOOPBACK"


def _apply(module: ModuleType) -> None:
    original = module.resolve_ip_for_localhost

    def resolve_ip_for_localhost(host: str) -> str:
        """The host; loopback stays what it is in a run that keeps to it."""
        if host == LOOPBACK and os.environ.get(LOOPBACK_VARIABLE):
            return host
        return original(host)

    replace(module, "resolve_ip_for_localhost", resolve_ip_for_localhost)


PATCH = Patch(
    name="ray_loopback",
    package="ray",
    versions="==2.60.0",
    reference="ray/_private/services.py::resolve_ip_for_localhost",
    reason="a run on one machine listens on all of its interfaces",
    target_module="ray._private.services",
    apply=_apply,
    processes=TRAINING,
)
