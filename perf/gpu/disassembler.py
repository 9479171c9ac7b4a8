"""NVIDIA's nvdisasm and cuobjdump, for cycles.py: those of an installed CUDA toolkit, else of .venv-sass, which is created on first use (10 MB).

Run as a program it prints their paths.
"""
import functools
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(os.path.dirname(os.path.dirname(HERE)), ".venv-sass")
NAMES = ("nvdisasm", "cuobjdump")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])


class Missing(Exception):
    """The tools are neither installed nor can they be fetched; the text is the reason."""


def made():
    """The folder of the tools in .venv-sass. Raises Missing when they cannot be fetched."""
    packages, stamp = os.path.join(HERE, "requirements.txt"), os.path.join(VENV, "requirements.txt")
    with open(packages) as f:
        wanted = f.read()
    if not (os.path.exists(stamp) and open(stamp).read() == wanted):
        print("making .venv-sass with NVIDIA's disassembler; this downloads 10 MB", file=sys.stderr)
        install = ["install", "--quiet", "--disable-pip-version-check", "--retries", "1", "-r", packages]
        for command in ([sys.executable, "-m", "venv", "--clear", VENV], [os.path.join(VENV, "bin", "python"), "-m", "pip", *install]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise Missing(f"nvdisasm and cuobjdump are not installed and cannot be fetched: {lines[-1] if lines else 'pip failed'}")
        with open(stamp, "w") as f:
            f.write(wanted)
    places = glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages", "nvidia", "cu*", "bin"))
    if not places:
        raise Missing(f"the packages of {packages} have no nvidia/cu*/bin folder")
    return places[0]


@functools.lru_cache(maxsize=1)
def found():
    """The paths of the tools, or the Missing that says why there are none. Looks once: without a network pip takes a while to give up."""
    installed = tuple(shutil.which(name, path=PATH) for name in NAMES)
    try:
        return installed if all(installed) else tuple(os.path.join(made(), name) for name in NAMES)
    except Missing as reason:
        return reason


def tools():
    """(nvdisasm, cuobjdump): their paths. Raises Missing, with the reason, when there are none."""
    if isinstance(found(), Missing):
        raise found()
    return found()


if __name__ == "__main__":
    try:
        print(*tools(), sep="\n")
    except Missing as reason:
        sys.exit(f"disassembler.py: {reason}")
