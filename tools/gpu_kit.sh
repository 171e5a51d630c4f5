#!/usr/bin/env bash
# Packs the packages that `make gpu-check` needs, for a machine with a GPU that reaches no package index.
#
# That machine's image has Python 3.12, torch 2.11 for CUDA, triton, numpy, pandas, pyarrow, pillow and what commonly
# comes with them. The first file adds verl, Ray and what they import, at the versions of requirements/gpu.txt; the
# second one adds vLLM with the machine code of one generation of GPUs. On that machine:
#
#   mkdir /tmp/kit; for file in gpu-kit*.tar.xz; do tar -xf $file -C /tmp/kit; done
#   python3 -m compileall -q -j 0 /tmp/kit; PYTHONPATH=/tmp/kit python3 -m tools.gpu_check
#
# Usage: tools/gpu_kit.sh [FOLDER [PYTHON_VERSION [ARCHITECTURE]]]     (., 3.12, 90: H100 and H200)
# Writes gpu-kit.tar.xz and gpu-kit-vllm.tar.xz, about 50 and 43 MiB; without the second one, `recipe` is not run.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:-.}")
python=${2:-3.12}
architecture=${3:-90}
# In the order of the import chain. The image's own copies of numpy, pandas, pyarrow, pillow, ... are used.
names=(
    verl transformers tokenizers huggingface-hub ray tensordict pyvers orjson transferqueue pyzmq msgspec
    hydra-core omegaconf antlr4-python3-runtime codetiming datasets dill multiprocess xxhash pydantic pydantic-core
    annotated-types typing-inspection typing-extensions torchdata cachetools peft accelerate trl jsonschema
    jsonschema-specifications referencing rpds-py cloudpickle importlib-metadata zipp qwen-vl-utils httpx2 tenacity
    uvicorn fastapi starlette annotated-doc click pypdfium2 einops hf-xet httpx httpcore h11 anyio sniffio rapidfuzz
    pystemmer platformdirs
)
vllm_names=(
    vllm blake3 cbor2 compressed-tensors diskcache llguidance loguru mistral-common pycountry pydantic-extra-types
    model-hosting-container-standards jmespath supervisor openai jiter distro openai-harmony partial-json-parser
    prometheus-fastapi-instrumentator pybase64 python-multipart email-validator dnspython httptools websockets
    watchfiles setproctitle xgrammar apache-tvm-ffi lark outlines-core lm-format-enforcer interegular ijson depyf
    astor python-json-logger opentelemetry-api opentelemetry-sdk opentelemetry-proto opentelemetry-exporter-otlp
    opentelemetry-exporter-otlp-proto-grpc opentelemetry-exporter-otlp-proto-http
    opentelemetry-exporter-otlp-proto-common opentelemetry-semantic-conventions
    opentelemetry-semantic-conventions-ai googleapis-common-protos pydantic-settings python-dotenv gguf
    aiohttp-cors colorful opencensus opencensus-context google-api-core google-auth proto-plus smart-open py-spy
    bm25s reportlab pypdf pytz
)

PATH="$PWD/.venv/tool/bin:$PATH"
command -v uv >/dev/null || { echo "gpu-kit: uv is missing; tools/setup.sh installs it" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
built=(--quiet --no-deps --build-constraints requirements/build.txt --require-build-hashes)

# install FOLDER NAME...: install the pins of these names with their hashes. A name without a pin in
# requirements/gpu.txt is skipped: the pinned versions of the others do not need it.
install() {
    local folder=$1
    shift
    awk -v names="$*" '
        BEGIN { count = split(names, list, " "); for (i = 1; i <= count; i++) wanted[list[i]] = 1 }
        /^[A-Za-z0-9]/ { name = tolower($1); sub(/[=;@[].*/, "", name); gsub(/[_.]/, "-", name); keep = name in wanted }
        keep
    ' requirements/gpu.txt > "$work/pins.txt"
    uv pip install "${built[@]}" --require-hashes --target "$folder" \
        --python-version "$python" --python-platform x86_64-manylinux_2_35 -r "$work/pins.txt"
}

# pack FOLDER FILE: write the files of a folder as an archive, the same bytes for the same files
pack() {
    rm -rf "$1/bin"
    find "$1" -name __pycache__ -prune -exec rm -rf {} +
    tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c . | xz -6 -T0 > "$work/packed"
    mkdir -p "$out"
    mv "$work/packed" "$out/$2"
    chmod 644 "$out/$2"
    echo "gpu-kit: $out/$2, $(($(stat -c %s "$out/$2") / 1048576)) MiB, for Python $python"
}

install "$work/site" "${names[@]}"
# this package itself; its metadata has the entry point by which verl finds the plugin
uv pip install "${built[@]}" --target "$work/site" .
cp -r tools "$work/site/"
rm -rf "$work/site/ray/core/libjemalloc.so" "$work/site/ray/jars" "$work/site/ray/rllib" \
    "$work/site/ray/dashboard/client"
pack "$work/site" gpu-kit.tar.xz

install "$work/vllm" "${vllm_names[@]}"
(
    cd "$work/vllm"
    # not needed: servers in Rust, kernels for other models, headers, tokenizers and tables
    rm -rf vllm/vllm-rs vllm/third_party/deep_gemm vllm/third_party/fmha_sm100 vllm/_flashmla*.so vllm/_qutlass*.so \
        vllm/model_executor/layers/fused_moe/configs mistral_common/data pycountry/locales xgrammar/lib
    find mistral_common -name '*.json' -size +1M -delete
    strip --strip-all xgrammar/*.so
)
.venv/bin/python -m tools.prune_gpu_code "$architecture" "$work"/vllm/vllm/*_C*.so "$work"/vllm/vllm/vllm_flash_attn/*.so
pack "$work/vllm" gpu-kit-vllm.tar.xz
