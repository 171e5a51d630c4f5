"""Remove the machine code for other GPUs from shared libraries.

python -m tools.prune_gpu_code 90 LIBRARY ...

A library with CUDA code contains each kernel once for every generation of GPUs. The code for other
generations is overwritten with zeros, which compress to nothing; the library keeps its size and its
symbols, and the driver finds the code for its own generation as before. The result runs only on
that generation.

The layout is that of `.nv_fatbin` (the headers that `cuobjdump` prints): containers of a header and
entries, each with its kind, sizes and architecture.
"""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTION = b".nv_fatbin"
MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")
"""Magic number, version, bytes of the header, bytes of all entries."""
ENTRY = struct.Struct("<HHIQIIII")
"""Kind, version, bytes of the header, bytes of the code, other fields, and the architecture."""
CUBIN = 2
"""Kind of an entry that is machine code; the other kind is PTX."""


@dataclass(frozen=True)
class Code:
    """An entry of a library: machine code or PTX of some kernels.

    Attributes:
        start: the offset of the code in the file.
        size: the bytes of the code.
        kind: `CUBIN` or PTX.
        architecture: 90 for compute capability 9.0.
    """

    start: int
    size: int
    kind: int
    architecture: int


def prune(path: Path, architecture: int) -> tuple[int, int]:
    """Overwrite the code for other architectures with zeros.

    Returns:
        the bytes of code that were kept, and of code that was overwritten.

    Raises:
        ValueError: the file is not a 64-bit ELF file.
    """
    kept = dropped = 0
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for code in codes(data):
            if (code.kind, code.architecture) == (CUBIN, architecture):
                kept += code.size
            else:
                data[code.start : code.start + code.size] = bytes(code.size)
                dropped += code.size
    return kept, dropped


def codes(data: bytes | mmap.mmap) -> Iterator[Code]:
    """Yield the entries of the file's section with GPU code; nothing if there is none."""
    position, end = _section(data)
    while position + CONTAINER.size <= end:
        magic, _, header, size = CONTAINER.unpack_from(data, position)
        if magic != MAGIC:
            position += 8  # containers are aligned
            continue
        position += header
        stop = position + size
        while position < stop:
            kind, _, header, size, *_, architecture = ENTRY.unpack_from(data, position)
            yield Code(position + header, size, kind, architecture)
            position += header + size


def _section(data: bytes | mmap.mmap) -> tuple[int, int]:
    """Return the offsets at which the section begins and ends."""
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", data, table + number * size) for number in range(count)]
    for name, _, _, _, offset, length in heads:
        start = heads[names][4] + name
        if data[start : start + len(SECTION) + 1] == SECTION + b"\0":
            return offset, offset + length
    return 0, 0


if __name__ == "__main__":
    for library in sys.argv[2:]:
        found = prune(Path(library), int(sys.argv[1]))
        print(
            "{}: {} MiB kept, {} MiB dropped".format(
                Path(library).name, *(size >> 20 for size in found)
            )
        )
