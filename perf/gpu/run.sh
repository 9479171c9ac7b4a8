#!/usr/bin/env bash
# What a machine with a GPU is asked: perf/gpu/run.sh [--dry-run] build | check | sanitize | time
# Each stage is bounded to 10 minutes and may be repeated; what it wrote is in build-gpu/. Nothing is installed or downloaded.
set -euo pipefail
root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
build=$root/build-gpu
python=${PYTHON:-$root/.venv/bin/python}
limit=580  # seconds a stage
dry=0

say() { printf '%s\n' "$*" >&2; }
fail() { say "perf/gpu/run.sh: $1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }
run() {
  say "+ $*"
  ((dry)) || timeout "$limit" "$@"
}
needs_gpu() {
  ((dry)) || "$python" -c 'import lamina as lm, sys; sys.exit(0 if lm.cuda.is_available() else lm.cuda.why_unavailable())'
}

build_stage() {
  local card
  card=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .) || true
  [[ -n $card ]] || { ((dry)) && card=90; } || fail "nvidia-smi names no GPU" "fix: run this on a machine with an NVIDIA GPU and its driver, or add --dry-run"
  [[ $card != 90 ]] || card=90a
  run cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLAMINA_CUDA=ON -DLAMINA_CUDA_ARCHITECTURES="$card" -DPython_EXECUTABLE="$python"
  run ninja -C "$build" lamina_tests lamina_emulated lamina_package _core
}

# Kernels against the CPU: first under emulation, then on the card.
check_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  run "$build/lamina_emulated" --gtest_brief=1
  run "$build/lamina_tests" --gtest_brief=1 '--gtest_filter=*Gpu*'
  run "$python" "$root/perf/gpu/check.py"
  run "$python" "$root/perf/gpu/products.py"
}

sanitize_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  local tool
  command -v compute-sanitizer >/dev/null || ((dry)) || fail "there is no compute-sanitizer" "fix: install the CUDA toolkit's, or pip install nvidia-cuda-sanitizer-api"
  for tool in memcheck racecheck initcheck synccheck; do
    run compute-sanitizer --tool "$tool" --error-exitcode 1 "$python" "$root/perf/gpu/check.py" --layers 3 --steps 2
  done
}

time_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  run "$python" "$root/perf/gpu/times.py" --json "$build/gpu.json"
}

while (($#)); do
  case $1 in
    --dry-run) dry=1 ;;
    build | check | sanitize | time) "$1_stage" ;;
    *) fail "there is no stage $1" "fix: build, check, sanitize or time; --dry-run before them prints what they would do" ;;
  esac
  shift
done
