"""Random calls of all public functions with hostile values; see fuzz_border.py. A failure prints the seed: python fuzz_border.py --one
SEED."""
import os

import fuzz_border

CALLS = 40_000 if os.environ.get("LAMINA_TEST_LONG") else 300 if os.environ.get("LAMINA_TEST_QUICK") else 2_000


def test_hostile_calls_end_with_a_value_or_an_error_of_laminas():
    bad = fuzz_border.fuzz(CALLS, 1)
    assert not bad, "\n".join(bad[:20])
