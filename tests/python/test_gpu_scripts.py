"""What perf/gpu/run.sh starts on a machine with a GPU, started here for the CPU: the scripts must work on the first try there."""
import json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_training_is_compared_step_by_step():
    status, said = run(sys.executable, "perf/gpu/check.py", "--device", "cpu:0", "--layers", "3", "--steps", "2")
    assert status == 0 and said.endswith("agree\n") and said.count("losses differ by 0.0e+00, weights by 0.0e+00") == 6, said


def test_products_of_every_precision_are_compared_with_double():
    status, said = run(sys.executable, "perf/gpu/products.py", "--device", "cpu:0")
    assert status == 0 and said.endswith("agree\n") and said.count("losses of training differ by 0.0e+00") == 4, said


def test_a_product_of_other_operands_fails(tmp_path):
    program = tmp_path / "planted.py"
    program.write_text("import runpy, sys\nimport numpy as np, lamina as lm\nsys.argv = ['products.py', '--device', 'cpu:0']\nsys.path.insert(0, 'perf/gpu')\n"
                       "matmul = lm.matmul\nlm.matmul = lambda a, b, **flags: matmul(lm.astype(lm.astype(a, lm.bfloat16), lm.float32), b, **flags)\n"
                       "runpy.run_path('perf/gpu/products.py', run_name='__main__')\n")
    status, said = run(sys.executable, str(program))
    assert status == 1 and said.endswith("DIFFER\n"), said


def test_a_difference_fails(tmp_path):
    program = tmp_path / "planted.py"
    program.write_text("import runpy, sys\nimport numpy as np\nsys.argv = ['check.py', '--device', 'cpu:0', '--layers', '2', '--steps', '1']\n"
                       "seeds = iter(range(100))\nmade = np.random.default_rng\nnp.random.default_rng = lambda seed: made(next(seeds))\n"
                       "runpy.run_path('perf/gpu/check.py', run_name='__main__')\n")
    status, said = run(sys.executable, str(program))
    assert status == 1 and said.endswith("DIFFER\n"), said


def test_times_are_written(tmp_path):
    status, said = run(sys.executable, "perf/gpu/times.py", "--device", "cpu:0", "--batches", "2", "--json", str(tmp_path / "t.json"))
    assert status == 0, said
    (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert row["batch"] == 2 and row["step_us"] > row["forward_us"] > 0


def test_every_stage_can_be_tried_without_a_gpu():
    status, said = run("perf/gpu/run.sh", "--dry-run", "build", "check", "sanitize", "time")
    assert status == 0 and [said.count(word) for word in ("cmake -S", "check.py", "products.py", "--tool", "times.py")] == [1, 5, 1, 4, 1], said
    status, said = run("perf/gpu/run.sh", "polish")
    assert status == 1 and "there is no stage polish" in said
