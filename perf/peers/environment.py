"""The Python environment of the other frameworks, .venv-peers: created if it is missing or its list of packages has changed.

Run as a program it prints the path of the interpreter.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(os.path.dirname(os.path.dirname(HERE)), ".venv-peers")


def peers_python():
    """The path of its interpreter. Raises subprocess.CalledProcessError when it cannot be created, for lack of network or space."""
    packages = os.path.join(HERE, "requirements.txt")
    with open(packages) as f:
        wanted = f.read()
    stamp, python = os.path.join(VENV, "requirements.txt"), os.path.join(VENV, "bin", "python")
    if not (os.path.exists(stamp) and open(stamp).read() == wanted):
        print("making .venv-peers with JAX, TensorFlow, PyTorch and ONNX Runtime; this downloads some gigabytes", file=sys.stderr)
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", packages], check=True)
        with open(stamp, "w") as f:
            f.write(wanted)
    return python


if __name__ == "__main__":
    print(peers_python())
