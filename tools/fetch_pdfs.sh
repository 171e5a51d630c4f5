#!/usr/bin/env bash
# Fetches two long, real PDFs from Debian's documentation packages: fetch_pdfs.sh FOLDER
set -euo pipefail
target=${1:?usage: fetch_pdfs.sh FOLDER}
mkdir -p "$target"
[ -s "$target/debian-reference.pdf" ] && [ -s "$target/packaging-tutorial.pdf" ] && exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "fetch_pdfs: apt-get and dpkg-deb are missing, so Debian's manuals cannot be fetched; put PDFs of your own into $target" >&2
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download -qq debian-reference-en packaging-tutorial 2>/dev/null); }
download || { apt-get update -qq 2>/dev/null && download; } || {
    echo "fetch_pdfs: Debian's packages cannot be reached; put PDFs of your own into $target" >&2
    exit 0
}
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
place() { cp "$1" "$target/$2.part" && mv "$target/$2.part" "$target/$2"; }
place "$work/root/usr/share/debian-reference/debian-reference.en.pdf" debian-reference.pdf
place "$work/root/usr/share/doc/packaging-tutorial/packaging-tutorial.pdf" packaging-tutorial.pdf
echo "fetch_pdfs: $(ls "$target" | wc -l) PDFs in $target"
