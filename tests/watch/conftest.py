import time

PATIENCE_S = 120


def until(find):
    """Return the result of a function as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
