"""The memory that Python allocates, without that of libraries."""

import tracemalloc
from contextlib import contextmanager


@contextmanager
def within(most: int):
    """Assert that the block allocates at most this many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
