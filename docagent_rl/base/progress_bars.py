"""Progress bars of libraries, which small models need for milliseconds."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_progress_bars() -> Generator[None]:
    """Hide transformers' progress bars of loading and saving a model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
