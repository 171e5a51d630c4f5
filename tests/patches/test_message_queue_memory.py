"""Shared memory of vLLM's message queues."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def queues():
    import verl  # noqa: F401 - whose plugins patch vLLM
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

    return MessageQueue


def pair(queues, ready):
    """A writer and a reader that have met, and the file of their memory."""
    writer = queues(1, 1, max_chunk_bytes=1 << 16)
    file = Path("/dev/shm") / writer.buffer.shared_memory.name.lstrip("/")
    assert file.exists()
    reader = queues.create_from_handle(writer.export_handle(), 0)
    waiting = threading.Thread(target=ready, args=(reader,))
    waiting.start()
    ready(writer)
    waiting.join(30)
    return writer, reader, file


def test_upstream_leaves_the_name_to_a_finaliser(queues):
    writer, _, file = pair(queues, queues.wait_until_ready.__wrapped__)
    assert file.exists()
    del writer


def test_the_name_goes_when_both_have_met_and_messages_come_through(queues):
    writer, reader, file = pair(queues, queues.wait_until_ready)
    assert not file.exists()
    for number in range(30):  # round the ring
        writer.enqueue({"number": number, "text": "x" * 1000})
        assert reader.dequeue(timeout=10)["number"] == number
    del reader, writer


def test_vllms_own_processes_have_it():
    """The engine's core imports no verl."""
    script = (
        "import sys; from vllm.plugins import load_general_plugins; load_general_plugins();"
        "from vllm.distributed.device_communicators.shm_broadcast import MessageQueue;"
        "print(hasattr(MessageQueue.wait_until_ready, '__wrapped__'), 'verl' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", "False"]
