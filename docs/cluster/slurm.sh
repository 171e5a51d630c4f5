#!/usr/bin/env bash
# One run on the nodes of a Slurm job: sbatch --nodes=2 docs/cluster/slurm.sh RECIPE [OVERRIDE ...]
# Set DOCAGENT_WORKSPACE to a folder that all nodes see, and VENV to an environment that all nodes see.
# Ten minutes before the job's end Slurm signals this script; the run saves a checkpoint and is requeued.
# When it is requeued or submitted again, it resumes from its last checkpoint.
#SBATCH --job-name=docagent-rl
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:TERM@600
#SBATCH --time=48:00:00
set -euo pipefail

: "${DOCAGENT_WORKSPACE:?set it to a folder that all nodes see}"
: "${VENV:?set it to the environment that docagent-rl is installed in}"
recipe=${1:?usage: slurm.sh RECIPE [OVERRIDE ...]}
shift
gpus=${SLURM_GPUS_ON_NODE:-8}
port=6379
PATH="$VENV/bin:$PATH"
# Ray on the nodes accepts commands only from those who can read this token
export RAY_AUTH_MODE=token
token=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
[ -s "$token" ] || ray get-auth-token --generate > /dev/null

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')

start() { # NODE OPTION ...: Ray on a node, until the job ends
    local node=$1
    shift
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" \
        ray start "$@" --num-gpus="$gpus" --disable-usage-stats --block &
}

start "$head" --head --node-ip-address="$address" --port="$port"
for _ in $(seq 60); do
    if ray health-check --address="$address:$port" 2> /dev/null; then break; fi
    sleep 2
done
for node in "${nodes[@]:1}"; do
    start "$node" --address="$address:$port"
done

# the run waits until all GPUs are available, and ends with one error if they never are
export RAY_ADDRESS="$address:$port"
asked=
trap 'asked=1; kill -TERM "${driver:-}" 2> /dev/null || true' TERM
python -m verl.trainer.main_ppo --config-name "$recipe" \
    trainer.nnodes="${#nodes[@]}" trainer.n_gpus_per_node="$gpus" "$@" &
driver=$!
wait "$driver" && status=0 || status=$?
if [ -n "$asked" ]; then # the signal ended the wait, not the run
    wait "$driver" && status=0 || status=$?
fi
if [ "$status" -eq 75 ]; then # the run was asked to end, and resumes when it is started again
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
