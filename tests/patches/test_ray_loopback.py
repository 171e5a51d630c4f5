from __future__ import annotations

import ray._private.services as upstream

from docagent_rl.patches.ray_loopback import LOOPBACK, LOOPBACK_VARIABLE


def test_loopback_stays_in_a_run_that_keeps_to_it(monkeypatch):
    monkeypatch.setattr("ray._private.services.node_ip_address_from_perspective", lambda _: "192.0.2.7")
    # upstream still puts the address of the network in its place
    assert upstream.resolve_ip_for_localhost.__wrapped__(LOOPBACK) == "192.0.2.7"
    monkeypatch.setenv(LOOPBACK_VARIABLE, "1")
    assert upstream.resolve_ip_for_localhost(LOOPBACK) == LOOPBACK
    assert upstream.resolve_ip_for_localhost("192.0.2.9") == "192.0.2.9"
    monkeypatch.delenv(LOOPBACK_VARIABLE)
    assert upstream.resolve_ip_for_localhost(LOOPBACK) == "192.0.2.7"
