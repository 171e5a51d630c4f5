"""A plan as a batch script of Slurm: one job that starts the servers and then the trainer."""

import shlex
from collections.abc import Iterator, Sequence

from docagent_rl.checks.placement.demand import Needs
from docagent_rl.checks.placement.plan import Plan
from docagent_rl.checks.placement.start import (
    API_KEY,
    DEVICES,
    Hosts,
    PlannedProcess,
    planned_servers,
    planned_trainer,
    trainer_devices,
)

_HEAD = """\
#!/usr/bin/env bash
# {recipe}: its servers, then its trainer, in one job: sbatch FILE
# Set before: DOCAGENT_WORKSPACE, a folder, and VENV, an environment, both seen by all nodes.
# Ten minutes before its end Slurm signals this script: the run saves a checkpoint and is requeued.
# Written by `docagent-rl recipes plan`; not run here.
#SBATCH --job-name=docagent-rl
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:TERM@600
#SBATCH --time=48:00:00
set -euo pipefail

: "${{DOCAGENT_WORKSPACE:?set it to a folder that all nodes see}}"
: "${{VENV:?set it to the environment that docagent-rl is installed in}}"
PATH="$VENV/bin:$PATH"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
"""
_FUNCTIONS = """
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true' EXIT

on() { # NODE COMMAND ...: run on a node, beside what runs there
    local node=$1
    shift
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" "$@"
}

answers() { # NODE PORT: wait until a server answers, half an hour at most
    for _ in $(seq 360); do
        if python -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=4)' \\
            "http://$1:$2/health" 2> /dev/null; then return; fi
        sleep 5
    done
    echo "the server at $1:$2 does not answer" >&2
    return 1
}
"""
_RAY = """
# the nodes' Ray takes orders only from those who can read this token
export RAY_AUTH_MODE=token
token=${{RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}}
[ -s "$token" ] || ray get-auth-token --generate > /dev/null
address=$(on "${{nodes[0]}}" hostname --ip-address | awk '{{print $1}}')
export {devices}={gpus}
on "${{nodes[0]}}" ray start --head --node-ip-address="$address" --port=6379 --num-gpus={number} \\
    --disable-usage-stats --block &
pids+=($!)
for _ in $(seq 60); do
    if ray health-check --address="$address:6379" 2> /dev/null; then break; fi
    sleep 2
done
for node in "${{nodes[@]:1:{others}}}"; do
    on "$node" ray start --address="$address:6379" --num-gpus={number} \\
        --disable-usage-stats --block &
    pids+=($!)
done
export RAY_ADDRESS="$address:6379"
"""
_RUN = """
asked=
trap 'asked=1; kill -TERM "${{driver:-}}" 2> /dev/null || true' TERM
{command} &
driver=$!
wait "$driver" && status=0 || status=$?
if [ -n "$asked" ]; then # the signal has ended the wait, not the run
    wait "$driver" && status=0 || status=$?
fi
if [ "$status" -eq 75 ]; then # the run was asked to end, and goes on when it is started again
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"""
_NODE = '"${nodes[%d]}"'


def slurm_script(
    needs: Needs, plan: Plan, gpus_per_node: int, seen: int, overrides: Sequence[str] = ()
) -> str:
    """Return the text of the script; `seen` are the bytes of a GPU that programs see."""
    hosts = Hosts(plan.nodes > 1, "${nodes[", "]}")
    servers = planned_servers(plan, seen, hosts.listening)
    trainer = planned_trainer(needs, plan, hosts, overrides)
    head = _HEAD.format(recipe=needs.recipe, nodes=plan.nodes, gpus=gpus_per_node)
    parts = [head + f"export {API_KEY}=$(openssl rand -hex 16)\n" * hosts.several, _FUNCTIONS]
    parts += [_server(start, servers, hosts) for start in servers]
    asked = {name for start in servers for name in start.after}
    parts += [_answers(start, hosts) for start in servers if start.name not in asked]
    if plan.trainer.nodes > 1:
        devices = trainer_devices(plan)
        numbers = ",".join(map(str, devices))
        others = plan.trainer.nodes - 1
        parts.append(_RAY.format(devices=DEVICES, gpus=numbers, number=len(devices), others=others))
    parts.append(_RUN.format(command=" \\\n    ".join(_words(trainer))))
    return "".join(parts)


def _server(start: PlannedProcess, servers: Sequence[PlannedProcess], hosts: Hosts) -> str:
    """Return the start of a server, after those on its GPUs answer."""
    before = [each for each in servers if each.name in start.after]
    waits = "".join(_answers(each, hosts) for each in before)
    command = " ".join(_words(start))
    return f"\n{waits}on {_NODE % start.node} env {command} &\npids+=($!)\n"


def _answers(start: PlannedProcess, hosts: Hosts) -> str:
    """Return a line that waits for a server."""
    name = _NODE % start.node if hosts.several else hosts.of(start.node)
    return f"answers {name} {start.port}\n"


def _words(start: PlannedProcess) -> Iterator[str]:
    """Yield the words of a command with its variables; names of nodes stay bash's."""
    for name, value in start.environment.items():
        yield f"{name}={_quoted(value)}"
    for word in start.words:
        yield _quoted(word)


def _quoted(word: str) -> str:
    return f'"{word}"' if "${nodes[" in word else shlex.quote(word)
