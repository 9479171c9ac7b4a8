import pytest

import lamina as lm


@pytest.fixture(autouse=True)
def same_start():
    """Every test draws the same numbers, whatever ran before it."""
    lm.random.set_seed(0)
