"""NVIDIA's tools on a card, each with what it must find.

usage: tools.py sanitize TOOL PLANTED COMMAND...   compute-sanitizer: nothing in `PLANTED none`, the bug of `PLANTED TOOL`, and nothing in the command
       tools.py profile MODE LIMIT COMMAND...      ncu with kernel or application replay: it ends within so many seconds and has seen section_kernel
"""
import os
import subprocess
import sys

FOUND = 9  # the exit status that compute-sanitizer is told to give
STAGED = {**os.environ, "LAMINA_RESIDENT": "staged"}  # no launch waits for the host: a tool may run it again


def sanitize(tool, planted, *command):
    def status(*what):
        return subprocess.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), *what], env=STAGED).returncode

    for what, wanted in (([planted, "none"], 0), ([planted, tool], FOUND), (command, 0)):
        got = status(*what)
        # After a bug that ends the context the program's own status may come instead.
        if (got == 0) != (wanted == 0):
            return f"compute-sanitizer's {tool} on {' '.join(what)}: exit status {got}, wanted {wanted}"
    return ""


def profile(mode, limit, *command):
    tool = ["ncu", "--clock-control", "none", "--replay-mode", mode, "--csv", "--page", "raw", "--section", "SpeedOfLight"]
    try:
        done = subprocess.run([*tool, *command], env=STAGED, capture_output=True, text=True, timeout=float(limit))
    except subprocess.TimeoutExpired:
        return f"ncu with {mode} replay has not ended in {limit} seconds"
    if done.returncode != 0:
        return f"ncu with {mode} replay: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return "" if "section_kernel" in done.stdout else f"ncu with {mode} replay has seen no section_kernel\n{done.stdout[-2000:]}"


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("sanitize", "profile"):
        sys.exit(__doc__)
    why = {"sanitize": sanitize, "profile": profile}[sys.argv[1]](*sys.argv[2:])
    print(why or f"{sys.argv[1]} {sys.argv[2]}: as wanted")
    sys.exit(1 if why else 0)
