#!/usr/bin/env bash
# Makes .venv with the pinned packages and this one in editable mode. Does nothing when all is in place.
# PINS=gpu installs vLLM's GPU wheel instead; `make train` and `make test` run on the CPU everywhere.
# Every file that is downloaded has to have a SHA-256 of requirements/ (tools/lock.sh writes them).
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
case ${PINS:-cpu} in cpu | gpu) ;; *) fail "PINS=$PINS: use cpu or gpu" ;; esac

stamp=.venv/.docagent-rl-set-up
wanted=$(cat "$pins" requirements/build.txt requirements/uv.txt pyproject.toml tools/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/docagent-rl ]; then
    exit 0
fi

free=$(df -Pk . | awk 'NR==2 {print int($4 / 1048576)}')
[ -d .venv ] || [ "$free" -ge 12 ] || fail "12 GiB of disk are needed, $free are free"

knows_hashes() { uv pip install --help 2>/dev/null | grep -c -e --require-build-hashes >/dev/null; }
if ! knows_hashes; then
    # a tool environment of its own, so that nothing outside this folder changes
    PATH="$PWD/.venv/tool/bin:$PATH"
    knows_hashes || {
        "$python" -m venv .venv/tool \
            && .venv/tool/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/uv.txt
    } || fail "uv could not be installed (python3-venv and a package index are needed)"
fi
checked=(--quiet --python .venv/bin/python --no-deps --build-constraints requirements/build.txt --require-build-hashes)

say "installing $(grep -c '^[A-Za-z0-9].*==' "$pins") packages from $pins (about 8 GB, 2 to 5 minutes)"
[ -x .venv/bin/python ] || uv venv --quiet --allow-existing --python "$python" .venv
uv pip install "${checked[@]}" --require-hashes -r "$pins" || fail "the packages of $pins could not be installed"
uv pip install "${checked[@]}" -e . || fail "this package could not be installed"
# else each of a run's ten processes spends ten seconds on it, again and again where they may not write it down;
# what does not compile is not meant to (templates, files for other versions of Python)
.venv/bin/python -m compileall -qq -j 0 .venv/lib/python3*/site-packages docagent_rl >/dev/null || true

echo "$wanted" > "$stamp"
say "done"
