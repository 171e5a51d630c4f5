"""The memory that Python allocates, libraries' apart."""

import tracemalloc
from contextlib import contextmanager


@contextmanager
def within(most: int):
    """The block holds at most so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
