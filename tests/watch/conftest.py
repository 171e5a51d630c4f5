import time

PATIENCE_S = 120


def until(find):
    """What is found, as soon as it is something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
