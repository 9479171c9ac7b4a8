"""Runs random graphs on a card and compares them with the reference interpreter in double precision on the CPU, in many processes at once.

usage: graphs.py LAMINA_TESTS DONE [--count 20000] [--at-once 500] [--limit SECONDS] [--test NAME]
Seeds that agreed are noted in the folder DONE and not run again. Exit status: 0 all agree, 1 one does not, 3 some are left.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import time

FIRST = 1_000_000  # seed: no other test makes these graphs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("done")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--limit", type=float, default=500)
    parser.add_argument("--test", default="Programs.AgreeOnAGpuOnRandomGraphs")
    o = parser.parse_args()
    os.makedirs(o.done, exist_ok=True)
    end = time.monotonic() + o.limit
    failed = []

    def run(first):
        mark, count = os.path.join(o.done, f"{first}-{o.at_once}"), min(o.at_once, FIRST + o.count - first)
        left = end - time.monotonic()
        if os.path.exists(mark):
            return count
        if left < 1 or failed:
            return 0
        settings = {**os.environ, "LAMINA_TEST_COUNT": str(count), "LAMINA_TEST_SEED": str(first)}
        try:
            said = subprocess.run([o.program, f"--gtest_filter={o.test}"], env=settings, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return 0
        if said.returncode != 0 or "[  PASSED  ] 1 test" not in said.stdout or "SKIPPED" in said.stdout:
            failed.append(said.stdout[-4000:] + said.stderr[-1000:])
            return 0
        open(mark, "w").close()
        return count

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        agree = sum(pool.map(run, range(FIRST, FIRST + o.count, o.at_once)))
    if failed:
        print(failed[0])
    print(f"{agree} of {o.count} random graphs agree, seeds from {FIRST}")
    return 1 if failed else 0 if agree == o.count else 3


if __name__ == "__main__":
    sys.exit(main())
