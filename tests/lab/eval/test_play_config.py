import subprocess
import sys

HEAVY = {"ray", "torch", "transformers", "verl", "vllm"}
CODE = """
import sys
from docagent_rl.checks.check import PlannedRun, When, run_checks
from docagent_rl.checks.services import SERVICE_CHECKS
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.eval.play_config import play_config

run = play_config("vrag_rl_qwen2_5_vl_7b", Agent.SYSTEM, ["+retriever=bm25", "+profile=cpu"])
run_checks(SERVICE_CHECKS, When.PLAY, PlannedRun.of(run))
print(*sys.modules)
"""


def test_a_configuration_to_play_with_an_endpoint_is_composed_and_checked_without_verl():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert HEAVY & set(done.stdout.split()) == set()
