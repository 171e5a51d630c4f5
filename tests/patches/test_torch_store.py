"""The store of a process group listens at the address that it is given."""

import os
import socket
import sys
from datetime import timedelta

import psutil
import pytest
from torch.distributed import TCPStore

from docagent_rl.patches.torch_store_loopback import PATCH
from docagent_rl.training.loopback import LOOPBACK, LOOPBACK_VARIABLE
from docagent_rl.training.patching import patch_status

# `torch.distributed` has a function of its name
rendezvous = sys.modules["torch.distributed.rendezvous"]
MINUTE = timedelta(seconds=60)


@pytest.fixture
def port():
    with socket.create_server((LOOPBACK, 0)) as free:
        return free.getsockname()[1]


def listens_at(port):
    connections = psutil.Process(os.getpid()).net_connections("tcp")
    return {
        each.laddr.ip for each in connections if each.status == "LISTEN" and each.laddr.port == port
    }


def test_it_is_applied():
    (status,) = [each for each in patch_status() if each.name == PATCH.name]
    assert status.state.value == "applied"


@pytest.mark.parametrize("use_libuv", [True, False])
def test_in_a_run_on_one_machine_it_listens_on_loopback(monkeypatch, port, use_libuv):
    monkeypatch.setenv(LOOPBACK_VARIABLE, "1")
    store = rendezvous._create_c10d_store(LOOPBACK, port, 0, 1, MINUTE, use_libuv)
    assert listens_at(port) == {LOOPBACK}
    other = rendezvous._create_c10d_store(LOOPBACK, port, 1, 1, MINUTE, use_libuv)
    other.set("key", "value")
    assert store.get("key") == b"value"
    # a second group of the process shares it
    again = rendezvous._create_c10d_store(LOOPBACK, port, 0, 1, MINUTE, use_libuv)
    assert again.get("key") == b"value"
    assert TCPStore(LOOPBACK, port, is_master=False, timeout=MINUTE).get("key") == b"value"


def test_torch_alone_and_other_runs_listen_everywhere(monkeypatch, port):
    monkeypatch.delenv(LOOPBACK_VARIABLE, raising=False)
    store = rendezvous._create_c10d_store(LOOPBACK, port, 0, 1, MINUTE)
    assert listens_at(port) - {LOOPBACK}
    assert store.num_keys() >= 0
