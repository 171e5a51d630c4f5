"""Imports of other libraries change a process; each is tried in processes of its own."""

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import ray._private.services as services
import transformers.utils
from sklearn.metrics import roc_curve

from docagent_rl.patches import late_sklearn
from docagent_rl.patches.root_logger_level import CULPRIT, VARIABLE
from docagent_rl.training.loopback import LOOPBACK, LOOPBACK_VARIABLE

QUEUES = "vllm.distributed.device_communicators.shm_broadcast"
SCRIPT = f"""
import json, logging, os, sys
heard = logging.StreamHandler()
logging.getLogger().addHandler(heard)
{{before}}
import {late_sklearn.USER} as user
report = {{{{"sklearn": "sklearn" in sys.modules, "available": user.is_sklearn_available()}}}}
{{then}}
import {CULPRIT} as culprit
report["levels"] = [logging.getLogger().level, heard.level, culprit.get_logger().level]
report |= {{{{"left": os.environ.get("{VARIABLE}"), "verl": "verl" in sys.modules}}}}
if "vllm" in sys.modules:
    from {QUEUES} import MessageQueue
    report["queues"] = hasattr(MessageQueue.wait_until_ready, "__wrapped__")
print("\\n" + json.dumps(report))
"""


def report(before="", then=""):
    environment = {
        name: value for name, value in os.environ.items() if name not in {VARIABLE, "LOG_LEVEL"}
    }
    command = [sys.executable, "-c", SCRIPT.format(before=before, then=then)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_upstream_still_imports_sklearn_and_silences_loggers_and_vllm_alone_patches_its_queues():
    """vLLM's engine core does not import verl."""
    found = report(then="from vllm.plugins import load_general_plugins; load_general_plugins()")
    assert found["sklearn"]
    assert found["levels"][:2] == [logging.ERROR, logging.ERROR]
    assert (found["queues"], found["verl"]) == (True, False)


@pytest.mark.slow
def test_with_verl_sklearn_waits_and_others_are_heard():
    """The package itself logs nothing, and child processes start afresh."""
    found = report("import verl", "import vllm")
    assert (found["sklearn"], found["available"]) == (False, True)
    assert (found["levels"][0], found["levels"][2], found["left"]) == (
        logging.WARNING,
        logging.ERROR,
        None,
    )


def test_sklearns_function_is_there_when_it_is_called():
    import transformers.generation.candidate_generator as user

    labels, scores = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])
    for ours, theirs in zip(user.roc_curve(labels, scores), roc_curve(labels, scores), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert transformers.utils.is_sklearn_available()


def test_loopback_stays_in_a_run_that_keeps_to_it(monkeypatch):
    monkeypatch.setattr(
        "ray._private.services.node_ip_address_from_perspective", lambda _: "192.0.2.7"
    )
    # upstream still puts the address of the network in its place
    assert services.resolve_ip_for_localhost.__wrapped__(LOOPBACK) == "192.0.2.7"
    monkeypatch.setenv(LOOPBACK_VARIABLE, "1")
    assert services.resolve_ip_for_localhost(LOOPBACK) == LOOPBACK
    assert services.resolve_ip_for_localhost("192.0.2.9") == "192.0.2.9"
    monkeypatch.delenv(LOOPBACK_VARIABLE)
    assert services.resolve_ip_for_localhost(LOOPBACK) == "192.0.2.7"


@pytest.mark.slow
@pytest.mark.parametrize("patched", [False, True])
def test_the_name_of_a_queues_memory_goes_when_both_sides_have_met(patched):
    """Upstream leaves the removal to a finaliser. Messages arrive, also when the ring starts again
    from its beginning.
    """
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

    ready = MessageQueue.wait_until_ready if patched else MessageQueue.wait_until_ready.__wrapped__
    writer = MessageQueue(1, 1, max_chunk_bytes=1 << 16)
    file = Path("/dev/shm") / writer.buffer.shared_memory.name.lstrip("/")
    assert file.exists()
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    waiting = threading.Thread(target=ready, args=(reader,))
    waiting.start()
    ready(writer)
    waiting.join(60)
    assert file.exists() is not patched
    for number in range(30):
        writer.enqueue({"number": number, "text": "x" * 1000})
        assert reader.dequeue(timeout=60)["number"] == number
    del reader, writer
