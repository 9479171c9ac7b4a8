#!/usr/bin/env bash
# What a machine with a GPU is asked: perf/gpu/run.sh [--dry-run] build | check | sanitize | time NET | pack FILE
# Each stage ends within 10 minutes and goes on where it was when it is started again: exit status 3 says that something is left. What it wrote is in build-gpu/,
# figures in perf/results/. Nothing is installed or downloaded: `pack`, on a machine that has it, gathers the headers and archives that the build needs and the
# card's machine may lack; unpacked at the root of the tree there, they are found.
set -euo pipefail
root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
build=${LAMINA_GPU_BUILD:-$root/build-gpu}
python=${PYTHON:-$root/.venv/bin/python}
[[ -x $python ]] || python=$(command -v "$python" || command -v python3)
limit=580       # seconds a stage
dry=0
began=$SECONDS

say() { printf '%s\n' "$*" >&2; }
fail() { say "perf/gpu/run.sh: $1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }
left() { echo $((limit - (SECONDS - began))); }
run() {
  say "+ $*"
  ((dry)) && return
  (($(left) > 5)) || { say "no time is left in this stage: start it again"; exit 3; }
  timeout "$(left)" "$@" || { local status=$?; ((status == 124)) && { say "cut off at $limit seconds: start the stage again"; exit 3; }; return $status; }
}
# Runs what has not been run with success since the last build.
once() {
  local done=$build/done/$1
  shift
  if ((!dry)) && [[ -e $done ]]; then say "= done before: $*"; return; fi
  run "$@"
  ((dry)) || { mkdir -p "$build/done" && : >"$done"; }
}
needs_gpu() {
  ((dry)) || "$python" -c 'import lamina as lm, sys; sys.exit(0 if lm.cuda.is_available() else lm.cuda.why_unavailable())'
}

build_stage() {
  local card
  card=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .) || true
  [[ -n $card ]] || { ((dry)) && card=90; } || fail "nvidia-smi names no GPU" "fix: run this on a machine with an NVIDIA GPU and its driver, or add --dry-run"
  [[ $card != 90 ]] || card=90a
  run cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLAMINA_CUDA=ON -DLAMINA_CUDA_ARCHITECTURES="$card" -DPython_EXECUTABLE="$python" -DCMAKE_PREFIX_PATH="$root/packed"
  ((dry)) || rm -rf "$build/done"
  run nvcc -O3 -std=c++17 -arch="sm_$card" -o "$build/latencies" "$root/perf/gpu/latencies.cu"
  run nvcc -O1 -g -lineinfo -std=c++17 -arch="sm_$card" -o "$build/planted" "$root/perf/gpu/planted.cu"
  run ninja -C "$build" lamina_package _core
  run ninja -C "$build" lamina_tests
}

# First the latencies that decide between designs; then kernels and training against the CPU, and random graphs, so many at once as there are processors.
check_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  once latencies bash -c '"$1" | tee "$2"' latencies "$build/latencies" "$build/latencies.json"
  once training "$python" "$root/perf/gpu/check.py" --device gpu:0
  once clusters env LAMINA_CUDA_CLUSTER=on "$python" "$root/perf/gpu/check.py" --device gpu:0
  once products "$python" "$root/perf/gpu/products.py"
  once tests "$build/lamina_tests" --gtest_brief=1 '--gtest_filter=*Gpu*-*RandomGraphs*'
  once graphs "$python" "$root/perf/gpu/graphs.py" "$build/lamina_tests" "$build/graphs" --limit "$(($(left) - 5))"
}

# Each tool must find the bug that is planted for it, nothing in the program without one, and nothing in ours.
sanitize_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  local tool mode
  command -v compute-sanitizer >/dev/null || ((dry)) || fail "there is no compute-sanitizer" "fix: install the CUDA toolkit's, or pip install nvidia-cuda-sanitizer-api"
  for tool in memcheck racecheck initcheck synccheck; do
    once "sanitize.$tool" "$python" "$root/perf/gpu/tools.py" sanitize "$tool" "$build/planted" "$python" "$root/perf/gpu/check.py" --device gpu:0 --layers 3 --steps 2 --batches 3
  done
  # Nsight Compute runs the kernel again, or the program.
  command -v ncu >/dev/null || ((dry)) || { say "there is no ncu: kernel and application replay are not tried"; return; }
  for mode in kernel application; do
    once "profile.$mode" "$python" "$root/perf/gpu/tools.py" profile "$mode" 120 "$python" "$root/perf/gpu/check.py" --device gpu:0 --steps 1 --batches 20 --optimizers SGD
  done
}

time_stage() {
  export PYTHONPATH=$build/python
  needs_gpu
  run "$python" "$root/perf/gpu/times.py" "$1" --device gpu:0 --limit "$(($(left) - 15))"
}

pack_stage() {
  local from path
  prefix=$(mktemp -d)
  trap 'rm -rf "$prefix"' EXIT
  say "+ gathering nlohmann_json, zlib and GoogleTest from /usr"
  for from in include/nlohmann share/cmake/nlohmann_json include/gtest include/gmock include/zlib.h include/zconf.h lib/*/libz.a lib/*/libgtest*.a lib/*/libgmock*.a lib/*/cmake/GTest; do
    for path in /usr/$from; do
      [[ -e $path ]] || fail "there is no $path" "fix: ./dev setup, or apt-get install nlohmann-json3-dev zlib1g-dev libgtest-dev libgmock-dev"
      mkdir -p "$prefix/packed/$(dirname "${path#/usr/}")"
      cp -rL "$path" "$prefix/packed/$(dirname "${path#/usr/}")/"
    done
  done
  ((dry)) || tar -C "$prefix" -czf "$1" packed
}

while (($#)); do
  case $1 in
    --dry-run) dry=1 ;;
    build | check | sanitize) began=$SECONDS; "$1_stage" ;;
    time | pack)
      (($# > 1)) || fail "$1 needs a word more" "fix: time hundred, policy, wide30, ensemble, conv or lstm; pack FILE.tar.gz"
      began=$SECONDS
      "$1_stage" "$2"
      shift
      ;;
    *) fail "there is no stage $1" "fix: build, check, sanitize, time NET or pack FILE; --dry-run before them prints what they would do" ;;
  esac
  shift
done
