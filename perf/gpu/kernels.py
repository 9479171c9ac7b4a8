"""Compares the GPU kernels of each op with double precision on a card, each op in a process of its own, many at once: a crash or a hang of one
hides no other.

usage: kernels.py LAMINA_TESTS [--only PATTERN] [--limit SECONDS] [--each SECONDS]
--only takes a shell pattern of ops, such as "conv2d*". Prints what is said of ops that are not well, and which ops launch nothing: those
have no kernel of their own. Exit status: 0 all are well, 1 one is not, 3 time has run out.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys
import time

TEST = "OnACard.TheKernelsOfAllOpsAgreeWithDoublePrecision"


def ops(program):
    """The ops that have test cases."""
    listed = subprocess.run([program, "--gtest_list_tests", "--gtest_filter=Op_*"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^Op_(\w+)\.$", listed, re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="*")
    parser.add_argument("--limit", type=float, default=230)
    parser.add_argument("--each", type=float, default=60)
    o = parser.parse_args()
    end = time.monotonic() + o.limit

    def run(op):
        """(launches, what is wrong); None for the launches: there was no time."""
        left = min(o.each, end - time.monotonic())
        if left < 1:
            return None, ""
        try:
            done = subprocess.run([o.program, f"--gtest_filter={TEST}"], env={**os.environ, "LAMINA_TEST_OP": op}, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return (0, f"took longer than {o.each:.0f} seconds") if left == o.each else (None, "")
        launches = re.search(r"^(\d+) launches$", done.stdout, re.M)
        if done.returncode != 0 or "[  PASSED  ] 1 test" not in done.stdout or not launches:
            return 0, f"exit status {done.returncode}\n" + done.stdout[-3000:] + done.stderr[-1000:]
        return int(launches[1]), ""

    names = [name for name in ops(o.program) if fnmatch.fnmatch(name, o.only)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(names, pool.map(run, names)))
    for name, (_, wrong) in results.items():
        if wrong:
            print(f"{name}: {wrong}")
    wrong = [name for name, (_, text) in results.items() if text]
    untried = [name for name, (launches, _) in results.items() if launches is None]
    idle = [name for name, (launches, text) in results.items() if launches == 0 and not text]
    print(f"{len(names) - len(wrong) - len(untried)} of {len(names)} ops agree in {sum(launches or 0 for launches, _ in results.values())} launches")
    for what, some in (("not well", wrong), ("not tried", untried), ("without a kernel of their own", idle)):
        if some:
            print(f"{what}: {', '.join(some)}")
    return 1 if wrong or not names else 3 if untried else 0


if __name__ == "__main__":
    sys.exit(main())
