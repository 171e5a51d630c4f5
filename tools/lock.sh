#!/usr/bin/env bash
# Writes the SHA-256 of every file of every pin into requirements/*.txt.
#
# It changes no version: to change or add one, write NAME==VERSION on a line of its own, and run this script. It refuses
# versions that do not fit each other on Python 3.11 or 3.12, and a file that lacks a package which another one needs.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$PWD/.venv/tool/bin:$PATH"
command -v uv >/dev/null || { echo "lock: uv is missing; tools/setup.sh installs it" >&2; exit 2; }

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for pins in requirements/*.txt; do
    file=${pins##*/}
    echo "# Written by tools/lock.sh: pins for Linux, Python 3.11 and 3.12, with the SHA-256 of all their files." > "$new/$file"
    # the output must not exist yet: uv would keep the hashes in it
    grep -o '^[A-Za-z0-9][^ ]*==[^ ]*' "$pins" > "$new/pins"
    uv pip compile --quiet --no-deps --generate-hashes --universal --python-version 3.11 \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --output-file "$new/hashed" "$new/pins"
    grep -o '^[A-Za-z0-9][^ ]*==[^ ]*' "$new/hashed" | cmp -s - "$new/pins" \
        || { echo "lock: uv changed the pins of $pins; keep it sorted, one NAME==VERSION a line" >&2; exit 1; }
    cat "$new/hashed" >> "$new/$file"
    rm "$new/hashed"
done

# print the pins of a file, NAME==VERSION, sorted
pins_of() { sed -n 's/^\([A-Za-z0-9][^ ]*==[^ ]*\).*/\1/p' "$1" | sort; }

extras=(--extra lab --extra qdrant --extra lancedb --extra layout --extra dev)
for machine in cpu gpu; do
    grep '^[A-Za-z0-9].*==' "$new/$machine.txt" | sed 's/ \\$//' > "$new/pins"
    for python in 3.11 3.12; do
        uv pip compile --quiet --no-header --no-annotate --python-version "$python" \
            --python-platform x86_64-manylinux_2_28 --constraints "$new/pins" --extra "$machine" "${extras[@]}" \
            --output-file "$new/resolved" pyproject.toml \
            || { echo "lock: the pins of $machine do not fit each other on Python $python" >&2; exit 1; }
        missing=$(comm -13 <(pins_of "$new/pins") <(pins_of "$new/resolved"))
        [ -z "$missing" ] || { echo "lock: requirements/$machine.txt lacks" $missing "(Python $python)" >&2; exit 1; }
        rm "$new/resolved"
    done
done
for pins in requirements/*.txt; do cp "$new/${pins##*/}" "$pins"; done
