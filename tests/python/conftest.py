import signal

import numpy as np
import pytest

import lamina as lm

# In a shell's background job SIGINT is ignored, and child processes inherit that: tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def same_start():
    """Every test draws the same numbers, whatever ran before it."""
    lm.random.set_seed(0)
    np.random.seed(0)
    yield
    lm.config.run_functions_eagerly(False)


def pytest_collection_modifyitems(items):
    """Processes that share the tests must know them by the same names."""
    unnamed = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unnamed:
        raise pytest.UsageError(f"names of tests hold addresses, which differ from process to process: give the parameters ids\n{unnamed[0]}")
