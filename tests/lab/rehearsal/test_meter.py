import subprocess
import sys

import pytest

from docagent_rl.lab.rehearsal import meter
from docagent_rl.lab.rehearsal.meter import MemoryMeter, PartMemory, ProcessPart, part_of


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("ray::WorkerDict.actor_rollout_ref_update_actor", ProcessPart.RANK),
        ("ray::DocAgentLoopWorker.generate_sequences", ProcessPart.AGENTS),
        ("ray::vLLMHttpServer.generate", ProcessPart.SERVER),
        ("VLLM::EngineCore", ProcessPart.SERVER),
        ("ray::TaskRunnerV1.run", ProcessPart.TRAINER),
        ("ray::SimpleStorageUnit", ProcessPart.QUEUE),
        ("ray::IDLE", ProcessPart.OTHER),
        ("/env/ray/core/src/ray/raylet/raylet --port 1", ProcessPart.RAY),
        ("python -m something", ProcessPart.OTHER),
    ],
)
def test_a_process_is_known_by_its_title(command, part):
    assert part_of(command) is part


def test_the_most_of_one_time_counts_not_the_sum_over_time():
    found = PartMemory()
    for sizes in ([5, 1], [3], []):
        found.add(sizes)
    assert (found.processes, found.together, found.largest) == (2, 6, 5)


def test_descendants_are_measured_without_what_they_share(monkeypatch):
    monkeypatch.setattr(meter, "INTERVAL_S", 0.05)
    grandchild = "import time; b = bytearray(64 << 20); print('ready', flush=True); time.sleep(60)"
    child = (
        "import subprocess, sys; "
        f"subprocess.run([sys.executable, '-c', {grandchild!r}, 'ray::WorkerDict'])"
    )
    with (
        subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE) as process,
        MemoryMeter(process.pid) as found,
    ):
        assert process.stdout.readline() == b"ready\n"
        found.look()
        process.kill()
    ranks = found.parts[ProcessPart.RANK]
    assert ranks.processes == 1
    assert 64 << 20 < ranks.together < 128 << 20
    assert found.parts[ProcessPart.DRIVER].processes == 1
    assert found.loopback_bytes >= 0
