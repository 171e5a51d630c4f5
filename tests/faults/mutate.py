"""Damage to the bytes of any file."""

from enum import StrEnum
from random import Random


class Damage(StrEnum):
    """A kind of damage to bytes."""

    NONE = "none"
    FLIP = "flip"
    ZERO = "zero"
    CUT = "cut off"
    DELETE = "delete"
    REPEAT = "repeat"
    INSERT = "insert"
    NOISE = "noise"
    APPEND = "append"
    EMPTY = "empty"


def damage(data: bytes, kind: Damage, random: Random) -> bytes:
    """Return `data` with one damage."""
    start = random.randrange(len(data))
    end = min(len(data), start + random.choice((1, 2, 4, 16, 100)))
    junk = random.randbytes(random.choice((1, 4, 64)))
    return {
        Damage.NONE: data,
        Damage.FLIP: _flipped(data, random),
        Damage.ZERO: data[:start] + bytes(end - start) + data[end:],
        Damage.CUT: data[:start],
        Damage.DELETE: data[:start] + data[end:],
        Damage.REPEAT: data[:end] + data[start:],
        Damage.INSERT: data[:start] + junk + data[start:],
        Damage.NOISE: data[:start] + random.randbytes(end - start) + data[end:],
        Damage.APPEND: data + junk,
        Damage.EMPTY: b"",
    }[kind]


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    # the first bytes hold what decides how the others are read
    reach = min(len(data), 256) if random.random() < 0.5 else len(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(reach)] ^= 1 << random.randrange(8)
    return bytes(changed)
