#!/usr/bin/env bash
# Packs what `make gpu-check` needs beside an image with torch 2.11, triton and what commonly comes with them:
# verl and what it imports, at the versions of requirements/gpu.txt, and Ray without its servers. There:
#
#   tar -xf KIT -C /tmp/kit --one-top-level && PYTHONPATH=/tmp/kit python3 -m tools.gpu_check
#
# Usage: tools/gpu_kit.sh [KIT.tar.xz [PYTHON_VERSION]]     (gpu-kit.tar.xz, 3.12)
set -euo pipefail
cd "$(dirname "$0")/.."

kit=$(realpath -m "${1:-gpu-kit.tar.xz}")
python=${2:-3.12}
limit_mib=64
# In the order of the import chain. The image's own copies of numpy, pandas, pyarrow, pillow, ... are used.
names=(
    verl transformers tokenizers huggingface-hub ray tensordict pyvers orjson transferqueue pyzmq msgspec
    hydra-core omegaconf antlr4-python3-runtime codetiming datasets dill multiprocess xxhash pydantic pydantic-core
    annotated-types typing-inspection typing-extensions torchdata cachetools peft accelerate trl jsonschema
    jsonschema-specifications referencing rpds-py cloudpickle importlib-metadata zipp qwen-vl-utils httpx2 tenacity
    uvicorn fastapi starlette annotated-doc click pypdfium2 einops hf-xet httpx httpcore h11 anyio sniffio
)

PATH="$PWD/.venv/tool/bin:$PATH"
command -v uv >/dev/null || { echo "gpu-kit: uv is missing; tools/setup.sh installs it" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# the pins with their hashes; a name that has none there is not needed with these versions
awk -v names="${names[*]}" '
    BEGIN { count = split(names, list, " "); for (i = 1; i <= count; i++) wanted[list[i]] = 1 }
    /^[A-Za-z0-9]/ { name = tolower($1); sub(/[=;@[].*/, "", name); gsub(/[_.]/, "-", name); keep = name in wanted }
    keep
' requirements/gpu.txt > "$work/pins.txt"
uv pip install --quiet --no-deps --require-hashes --build-constraints requirements/build.txt --require-build-hashes \
    --target "$work/site" --python-version "$python" --python-platform x86_64-manylinux_2_28 -r "$work/pins.txt"
# the sources as they are, and the entry point by which verl finds the plugin
uv pip install --quiet --no-deps --target "$work/site" --build-constraints requirements/build.txt .
cp -r tools "$work/site/"

# Ray as far as `import ray` goes, without its servers: verl imports it, the checks start none
rm -rf "$work/site/ray/core/src" "$work/site/ray/core/libjemalloc.so" "$work/site/ray/jars" \
    "$work/site/ray/rllib" "$work/site/ray/dashboard/client"
rm -rf "$work/site/bin"
find "$work/site" -name __pycache__ -prune -exec rm -rf {} +
tar -C "$work/site" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c . | xz -6 -T0 > "$work/kit"
size=$(($(stat -c %s "$work/kit") / 1048576))
if [ "$size" -ge "$limit_mib" ]; then
    echo "gpu-kit: $size MiB are more than the $limit_mib that may be carried" >&2
    exit 1
fi
mkdir -p "$(dirname "$kit")"
mv "$work/kit" "$kit"
chmod 644 "$kit"
echo "gpu-kit: $kit, $size MiB, for Python $python"
