"""What ptxas makes of the section kernel: registers, spills, stack and shared memory within written limits, per architecture."""
import os, re, shutil, subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NVCC = shutil.which("nvcc") or next((p for p in ["/usr/local/cuda/bin/nvcc"] if os.path.exists(p)), None)
LIMITS = {"registers": 255, "spill bytes": 0, "stack bytes": 256, "static shared bytes": 64}


def figures(log):
    """Of the kernel itself; functions that it calls follow it in the report."""
    stack, stores, loads = map(int, re.search(r"section_kernel.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log).groups())
    return {"registers": int(re.search(r"Used (\d+) registers", log)[1]), "spill bytes": stores + loads, "stack bytes": stack,
            "static shared bytes": int((re.search(r"(\d+) bytes smem", log) or [0, 0])[1])}


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc; ./dev setup --cuda brings it")
@pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="compiling the section kernel takes a minute per architecture; --long does")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_the_section_kernel_stays_within_its_limits(architecture, tmp_path):
    done = subprocess.run([NVCC, "-std=c++20", f"-arch={architecture}", "-fmad=false", "--expt-relaxed-constexpr", "-DLAMINA_BUILDING=1", f"-I{ROOT}", "-Xptxas", "-v", "-cubin",
                           "-o", str(tmp_path / "section.cubin"), os.path.join(ROOT, "kernels/cuda/section.cu")], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    found = figures(done.stderr)
    assert all(found[name] <= limit for name, limit in LIMITS.items()), found
