#!/usr/bin/env bash
# Makes .venv with the pinned packages and this one in editable mode. Does nothing when all is in place.
# PINS=gpu installs vLLM's GPU wheel instead; `make train` and `make test` run on the CPU everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'set-up: %s\n' "$1" >&2; exit 2; }
say() { printf 'set-up: %s\n' "$1"; }

python=""
for candidate in "${PYTHON:-}" python3.11 python3.12 python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or 3.12 is missing; install it or run: make PYTHON=/path/to/python3.11"
[ "$(uname -s)" = Linux ] || fail "vLLM needs Linux; this is $(uname -s)"

pins=requirements/${PINS:-cpu}.txt
[ -f "$pins" ] || fail "PINS=$PINS: there is no $pins; use cpu or gpu"

stamp=.venv/.docagent-rl-set-up
wanted=$(cat "$pins" pyproject.toml tools/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/docagent-rl ]; then
    exit 0
fi

free=$(df -Pk . | awk 'NR==2 {print int($4 / 1048576)}')
[ -d .venv ] || [ "$free" -ge 12 ] || fail "12 GiB of disk are needed, $free are free"

if ! command -v uv >/dev/null; then
    # a tool environment of its own, so that nothing outside this folder changes
    [ -x .venv/tool/bin/uv ] || { "$python" -m venv .venv/tool && .venv/tool/bin/pip install --quiet uv; } \
        || fail "uv could not be installed (python3-venv and a package index are needed)"
    PATH="$PWD/.venv/tool/bin:$PATH"
fi

say "installing $(grep -c == "$pins") packages from $pins (about 7 GB, 1 to 4 minutes)"
[ -x .venv/bin/python ] || uv venv --quiet --allow-existing --python "$python" .venv
uv pip install --quiet --python .venv/bin/python --no-deps -r "$pins" || fail "the packages of $pins could not be installed"
uv pip install --quiet --python .venv/bin/python --no-deps -e . || fail "this package could not be installed"

if ! command -v pdftoppm >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get install -y -qq poppler-utils || { apt-get update -qq && apt-get install -y -qq poppler-utils; }; } >/dev/null 2>&1 || true
    fi
    command -v pdftoppm >/dev/null || say "pdftoppm is missing (package poppler-utils): only the renderer pdf2image needs it"
fi
echo "$wanted" > "$stamp"
say "done"
