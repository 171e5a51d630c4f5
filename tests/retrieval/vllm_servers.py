"""vLLM servers that pool, on the CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tests.processes import end, members

SERVER = ["-m", "vllm.entrypoints.openai.api_server", "--runner", "pooling"]
SERVER += ["--dtype", "float32", "--host", "127.0.0.1", "--enforce-eager", "--served-model-name", "pooled"]
ALONE = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}


@contextmanager
def running(work, python, options: Mapping[str, Sequence[object]]) -> Iterator[dict]:
    """URLs and processes of servers that start at the same time, by the names of their options."""
    found, environment = {}, {**os.environ, **ALONE, "VLLM_CACHE_ROOT": str(work / "cache")}
    with ExitStack() as stack:
        stack.callback(lambda: end(members(work)))  # the engine of one that is killed
        log = stack.enter_context((work / "log").open("w"))
        for name, given in options.items():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port = listener.getsockname()[1]
            command = [python, *SERVER, "--port", port, *given]
            process = subprocess.Popen(map(str, command), env=environment, cwd=work, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            found[name] = (f"http://127.0.0.1:{port}", process)
        for url, process in found.values():
            while not answers(url):
                assert process.poll() is None, (work / "log").read_text()[-3000:]
                time.sleep(0.1)
        yield found


def answers(url: str) -> bool:
    """Whether a server is up."""
    with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=60):
        return True
    return False
