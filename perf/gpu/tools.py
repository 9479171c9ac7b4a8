"""NVIDIA's tools on a card, each with what it must find.

usage: tools.py sanitize TOOL PLANTED COMMAND...   compute-sanitizer: nothing in `PLANTED none`, the bug of `PLANTED TOOL`, and nothing in the command
       tools.py profile MODE LIMIT COMMAND...      ncu with kernel or application replay: it ends within so many seconds, and has seen one section_kernel in each
                                                   step of `check.py --profile`
"""
import csv
import os
import re
import subprocess
import sys

FOUND = 9  # the exit status that compute-sanitizer is told to return
# Each tool's report of the bug planted for it.
REPORTS = {"memcheck": "Invalid __global__ write", "racecheck": "Race reported", "initcheck": "Uninitialized __global__ memory read", "synccheck": "Barrier error detected"}
STAGED = {**os.environ, "LAMINA_RESIDENT": "staged"}  # no launch waits for the host, so a tool may replay it
DEVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels", "cuda", "device_gpu.h")
# A word in shared memory by which a warp tells another that its stores are done. racecheck knows barriers, but no acquire and release.
ORDERED = ("load_acquire_in_block", "store_release_in_block")
PROFILED = "steps profiled: "  # printed by check.py --profile, with their number


def ordered_lines():
    """The lines of device_gpu.h in the functions of ORDERED."""
    lines, inside, out = open(DEVICE).read().splitlines(), False, set()
    for number, line in enumerate(lines, 1):
        inside = inside or any(re.match(rf"LAMINA_DEVICE \w+ {name}\(", line) for name in ORDERED)
        if inside:
            out.add(number)
        inside = inside and not line.endswith("}")
    return out


def are_ordered(report):
    """Whether each race that racecheck reports is between two accesses by functions of ORDERED, and all are shown."""
    races = re.findall(r"Race reported between .*(?:\n.*\band .* access at .*)+", report)
    accesses = [line for race in races for line in race.splitlines()]
    places = [re.search(r"([\w.]+):(\d+)", line) for line in accesses]
    shown = re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed", report)
    lines = ordered_lines()
    return bool(races) and bool(shown) and int(shown[1]) == len(races) and all(p and p[1] == "device_gpu.h" and int(p[2]) in lines for p in places)


def sanitize(tool, planted, *command):
    for what, is_planted in (([planted, "none"], False), ([planted, tool], True), (command, False)):
        # A driver may be asked for functions that it lacks; the callers check the results of CUDA's calls.
        quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
        done = subprocess.run(["compute-sanitizer", "--tool", tool, *quiet, "--error-exitcode", str(FOUND), *what], env=STAGED, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout[-6000:], flush=True)
        # If a bug ends the context, the program's own status may be returned instead.
        if is_planted and (done.returncode == 0 or REPORTS[tool] not in done.stdout):
            return f"compute-sanitizer's {tool} has not found what is planted in {' '.join(what)}: exit status {done.returncode}"
        if tool == "racecheck" and done.returncode == FOUND and not is_planted and are_ordered(done.stdout):
            print(f"these are no races: both accesses are in {' or '.join(ORDERED)}, which racecheck does not know")
            continue
        if not is_planted and done.returncode != 0:
            return f"compute-sanitizer's {tool} on {' '.join(what)}: exit status {done.returncode}, wanted 0"
    return ""


def kernels(report):
    """The names of the launches in a report of ncu: CSV after the program's own output, with a row of units below the header."""
    lines = report.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return [row["Kernel Name"] for row in csv.DictReader(lines[head:]) if row["ID"].isdigit()]


def profile(mode, limit, *command):
    tool = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--replay-mode", mode, "--csv", "--page", "raw", "--section", "SpeedOfLight"]
    try:
        done = subprocess.run([*tool, *command], env=STAGED, capture_output=True, text=True, timeout=float(limit))
    except subprocess.TimeoutExpired:
        return f"ncu with {mode} replay has not ended in {limit} seconds"
    print(done.stdout, done.stderr, flush=True)
    if done.returncode != 0:
        return f"ncu with {mode} replay: exit status {done.returncode}"
    steps = next((int(line[len(PROFILED):]) for line in done.stdout.splitlines() if line.startswith(PROFILED)), -1)
    seen, wanted = kernels(done.stdout), "section_kernel"
    if len(seen) == steps and all(wanted in name for name in seen):
        return ""
    return f"ncu with {mode} replay has seen {len(seen)} kernels in {steps} steps, {', '.join(sorted(set(seen))) or 'none'}: wanted one {wanted} in each"


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("sanitize", "profile"):
        sys.exit(__doc__)
    why = {"sanitize": sanitize, "profile": profile}[sys.argv[1]](*sys.argv[2:])
    print(why or f"{sys.argv[1]} {sys.argv[2]}: as wanted")
    sys.exit(1 if why else 0)
