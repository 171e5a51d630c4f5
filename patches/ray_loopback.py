"""Ray listens only on the loopback interface if it is configured to.

Upstream: Ray 2.60.0, `ray/_private/services.py`, `resolve_ip_for_localhost`. `ray.init` replaces
`_node_ip_address="127.0.0.1"` with the network address, and then the GCS, the raylet, the object
manager, every worker and the metrics agent listen on all interfaces. With 127.0.0.1 as the node's
address, which Ray itself uses on macOS and Windows, all of them listen only there.

The patch only affects runs for which `docagent_rl/training/loopback.py` has set a variable, in the
driver and, by inheritance, in the processes of its Ray.

No longer needed once `ray.init` keeps a loopback address.
"""

from __future__ import annotations

import os
from types import ModuleType

from docagent_rl.training.loopback import LOOPBACK, LOOPBACK_VARIABLE
from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    original = module.resolve_ip_for_localhost

    def resolve_ip_for_localhost(host: str) -> str:
        """Return the host's address; keep 127.0.0.1 in a run that is bound to loopback."""
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
