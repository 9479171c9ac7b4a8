"""The section kernels as compiled by nvcc and ptxas: limits for registers, spills, stack and shared memory, and the expected tensor core
instructions, per architecture."""
import glob, os, re, shutil, subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NVCC = shutil.which("nvcc") or next((p for p in ["/usr/local/cuda/bin/nvcc"] if os.path.exists(p)), None)
LIMITS = {"registers": 255, "spill bytes": 0, "stack bytes": 256, "static shared bytes": 64}
ARCHITECTURES = ["sm_80", "sm_90a", "sm_100"]
KERNELS = {"section": "section_kernel", "section_tensor_cores": "section_kernel_with_tensor_cores", "section_cluster": "section_kernel_in_cluster"}
HAVE_TENSOR_CORES = ["section_tensor_cores", "section_cluster"]
# PTX and SASS names of the instructions for each precision.
PTX = {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": "HMMA.1688.F32.TF32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": "HMMA.16816.F32.BF16"}
CONVERSIONS = ["cvt.rna.tf32.f32", "cvt.rn.bf16x2.f32"]
OF_CLUSTERS = ["barrier.cluster.arrive.release", "barrier.cluster.wait.acquire", "mapa.u64", "ld.acquire.cluster.u32", "red.release.cluster.add.u32"]

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="there is no nvcc; ./dev setup --cuda brings it")
is_long = pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="compiling a section kernel takes a minute per architecture; --long does")


def compiled(source, architecture, to, *flags):
    """nvcc's messages; its output is in the file `to`."""
    done = subprocess.run([NVCC, "-std=c++20", f"-arch={architecture}", "-fmad=false", "--expt-relaxed-constexpr", "-DLAMINA_BUILDING=1", f"-I{ROOT}", *flags, "-o", str(to),
                           os.path.join(ROOT, f"kernels/cuda/{source}.cu")], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def figures(log, kernel):
    """The kernel's own figures; functions that it calls follow in the report."""
    stack, stores, loads = map(int, re.search(kernel + r"E.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log).groups())
    return {"registers": int(re.search(r"Used (\d+) registers", log)[1]), "spill bytes": stores + loads, "stack bytes": stack,
            "static shared bytes": int((re.search(r"(\d+) bytes smem", log) or [0, 0])[1])}


def disassembler():
    """nvdisasm, which is not in nvcc's package: on PATH, or beside a Python package of NVIDIA or Triton."""
    places = [p for package in ("nvidia/cu*/bin", "nvidia/cuda_nvdisasm/bin", "triton/backends/nvidia/bin") for p in glob.glob(os.path.join(os.path.dirname(pytest.__path__[0]), package, "nvdisasm"))]
    return shutil.which("nvdisasm") or next(iter(places), None)


@needs_nvcc
@is_long
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", KERNELS)
def test_a_section_kernel_stays_within_its_limits_and_has_the_intended_instructions(source, architecture, tmp_path):
    if source == "section_cluster" and architecture == "sm_80":
        pytest.skip("sm_80 has no clusters: the kernel is never launched there")
    cubin = tmp_path / "section.cubin"
    found = figures(compiled(source, architecture, cubin, "-Xptxas", "-v", "-cubin"), KERNELS[source])
    assert all(found[name] <= limit for name, limit in LIMITS.items()), found
    tool = disassembler()
    if tool is None:
        pytest.skip("within its limits; there is no nvdisasm to look for instructions with: pip install nvidia-cuda-nvdisasm")
    sass = subprocess.run([tool, "-c", str(cubin)], capture_output=True, text=True, timeout=600, check=True).stdout
    count = {name: len(re.findall(re.escape(name) + r"\b", sass)) for name in PTX.values()}
    assert all((n > 0) == (source in HAVE_TENSOR_CORES) for n in count.values()), count
    assert ("HMMA" in sass) == (source in HAVE_TENSOR_CORES) and sass.count("FFMA") > 100


@needs_nvcc
@is_long
@pytest.mark.parametrize("source", KERNELS)
def test_the_ptx_has_tensor_cores_and_clusters_exactly_where_intended(source, tmp_path):
    ptx = tmp_path / "section.ptx"
    compiled(source, "compute_90", ptx, "-ptx")
    text = ptx.read_text()
    for instruction in [*PTX, *CONVERSIONS]:
        assert (instruction in text) == (source in HAVE_TENSOR_CORES), instruction
    for instruction in OF_CLUSTERS:
        assert (instruction in text) == (source == "section_cluster"), instruction
