"""Reports from the trainer to the driver."""

import threading

import pytest
from ray.exceptions import RaySystemError
from ray.experimental import internal_kv

from docagent_rl.console.channel import CONSOLE_VARIABLE, ReportReceiver, ReportSender


@pytest.fixture
def store(monkeypatch):
    """Replace Ray's key-value store by a dictionary, and let it exist."""
    kept = {}
    monkeypatch.setattr(internal_kv, "_internal_kv_initialized", lambda: True)
    monkeypatch.setattr(
        internal_kv, "_internal_kv_put", lambda k, v, namespace: kept.update({k: v})
    )
    monkeypatch.setattr(internal_kv, "_internal_kv_get", lambda k, namespace: kept.get(k))
    monkeypatch.setattr(internal_kv, "_internal_kv_del", lambda k, namespace: kept.pop(k))
    return kept


def test_reports_arrive_in_order_and_leave_nothing(store, monkeypatch):
    monkeypatch.setenv(CONSOLE_VARIABLE, "a1")
    received, third = [], threading.Event()

    def handle(report):
        received.append(report)
        if len(received) == 3:
            third.set()

    receiver = ReportReceiver("a1", handle)
    receiver.begin()
    sender = ReportSender()
    for number in range(3):
        sender.send({"kind": "look", "name": number})
    assert third.wait(60)
    sender.send({"kind": "numbers", "numbers": {"a": 1.5}})
    receiver.end()
    assert [each.get("name") for each in received] == [0, 1, 2, None]
    assert received[-1]["numbers"] == {"a": 1.5}
    assert store == {}


def test_another_start_of_the_same_cluster_is_not_listened_to(store, monkeypatch):
    monkeypatch.setenv(CONSOLE_VARIABLE, "a1")
    ReportSender().send({"kind": "look", "name": "x"})
    receiver = ReportReceiver("b2", pytest.fail)
    receiver.begin()
    receiver.end()
    assert len(store) == 1


def test_without_a_console_nothing_is_sent(store, monkeypatch):
    monkeypatch.delenv(CONSOLE_VARIABLE, raising=False)
    sender = ReportSender()
    sender.send({"kind": "look", "name": "x"})
    assert not sender.listened_to
    assert store == {}


def test_a_store_that_cannot_be_reached_ends_no_run(store, monkeypatch):
    def fail(*_, **__):
        raise RaySystemError("gone")

    monkeypatch.setenv(CONSOLE_VARIABLE, "a1")
    monkeypatch.setattr(internal_kv, "_internal_kv_put", fail)
    ReportSender().send({"kind": "look", "name": "x"})
    monkeypatch.setattr(internal_kv, "_internal_kv_get", fail)
    receiver = ReportReceiver("a1", pytest.fail)
    receiver.begin()
    receiver.end()
