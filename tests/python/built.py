"""The location of the build under test."""
import glob, os, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
LIBRARY = os.path.join(BUILD, "python", "lamina", "liblamina.so")


def module_path():
    return glob.glob(os.path.join(BUILD, "python", "lamina", "_core*.so"))[0]


def output_of(*command, **options):
    run = subprocess.run(command, capture_output=True, text=True, **options)
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout}{run.stderr}"
    return run.stdout
