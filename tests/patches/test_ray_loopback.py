from __future__ import annotations

import ray._private.services as upstream

from docagent_rl.patches.ray_loopback import LOOPBACK, LOOPBACK_VARIABLE, PATCH
from docagent_rl.training.patching import install


def test_upstream_still_puts_the_address_of_the_network_in_its_place(monkeypatch):
    monkeypatch.setattr("ray._private.services.node_ip_address_from_perspective", lambda _: "192.0.2.7")
    install([PATCH])
    original = upstream.resolve_ip_for_localhost.__wrapped__
    assert original(LOOPBACK) == "192.0.2.7"


def test_loopback_stays_in_a_run_that_keeps_to_it(monkeypatch):
    monkeypatch.setattr("ray._private.services.node_ip_address_from_perspective", lambda _: "192.0.2.7")
    install([PATCH])
    monkeypatch.setenv(LOOPBACK_VARIABLE, "1")
    assert upstream.resolve_ip_for_localhost(LOOPBACK) == LOOPBACK
    assert upstream.resolve_ip_for_localhost("192.0.2.9") == "192.0.2.9"
    monkeypatch.delenv(LOOPBACK_VARIABLE)
    assert upstream.resolve_ip_for_localhost(LOOPBACK) == "192.0.2.7"
