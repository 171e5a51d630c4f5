#!/usr/bin/env bash
# Fetches two long, real PDFs from Debian's documentation packages: fetch_pdfs.sh FOLDER
#
# Where they cannot be fetched, it says so and succeeds: a demo is made with the user's own PDFs, or without any.
set -euo pipefail

folder=${1:?usage: fetch_pdfs.sh FOLDER}
mkdir -p "$folder"
if [ -s "$folder/debian-reference.pdf" ] && [ -s "$folder/packaging-tutorial.pdf" ]; then
    exit 0
fi

give_up() {
    echo "fetch_pdfs: $1; put PDFs of your own into $folder" >&2
    exit 0
}
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    give_up "apt-get and dpkg-deb are missing, so Debian's manuals cannot be fetched"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
download() {
    (cd "$scratch" && apt-get download -qq debian-reference-en packaging-tutorial 2>/dev/null)
}
# the lists of packages may be missing, as in a container, or out of date
if ! download; then
    apt-get update -qq 2>/dev/null && download || give_up "Debian's packages cannot be reached"
fi
for package in "$scratch"/*.deb; do
    dpkg-deb -x "$package" "$scratch/root"
done

# a file gets its name only when it is complete
copy() {
    cp "$1" "$folder/$2.part"
    mv "$folder/$2.part" "$folder/$2"
}
copy "$scratch/root/usr/share/debian-reference/debian-reference.en.pdf" debian-reference.pdf
copy "$scratch/root/usr/share/doc/packaging-tutorial/packaging-tutorial.pdf" packaging-tutorial.pdf
echo "fetch_pdfs: $(ls "$folder" | wc -l) PDFs in $folder"
