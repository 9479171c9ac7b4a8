#!/usr/bin/env bash
# What a machine with a GPU is asked: perf/gpu/run.sh [--dry-run] [--limit SECONDS] build | check | sanitize | time NET | pack ...
# Each stage ends within 10 minutes, or --limit, and goes on where it was when it is started again. Exit status: 0 all is done and well, 1 something failed (the rest was
# run all the same, but for a build), 3 something is left. What it wrote is in build-gpu/, figures in perf/results/ too, and all of it after each stage in one archive,
# build-gpu/results.tar.gz or LAMINA_GPU_ARCHIVE. Nothing is installed or downloaded: `pack`, on a
# machine that has it, gathers in build-gpu/packed the headers and libraries that the build needs and the card's machine may lack; they are found there.
# A build for another machine's card: LAMINA_GPU_ARCHITECTURE=90a perf/gpu/run.sh build. There, with the tree, build-gpu and a Python of the same version that has NumPy,
# no build is needed: PYTHON=/path/to/python perf/gpu/run.sh check. LAMINA_GPU_BUILD names another folder than build-gpu.
set -euo pipefail
root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
build=${LAMINA_GPU_BUILD:-$root/build-gpu}
archive=${LAMINA_GPU_ARCHIVE:-$build/results.tar.gz}
results=${LAMINA_GPU_RESULTS:-$root/perf/results}
export -n LAMINA_GPU_BUILD LAMINA_GPU_ARCHIVE LAMINA_GPU_RESULTS LAMINA_GPU_ARCHITECTURE  # no settings of Lamina's: doctor would say so
python=${PYTHON:-$root/.venv/bin/python}
[[ -x $python ]] || python=$(command -v "$python" || command -v python3)
# NVIDIA's tools are not always on PATH.
for folder in "${CUDA_HOME:-/usr/local/cuda}/bin" /opt/nvidia/nsight-compute/*; do
  [[ ! -d $folder ]] || PATH=$PATH:$folder
done
limit=580       # seconds a stage
dry=0
began=$SECONDS
failed=()       # what a stage has found wrong
unfinished=0

say() { printf '%s\n' "$*" >&2; }
fail() { say "perf/gpu/run.sh: $1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }
left() { echo $((limit - (SECONDS - began))); }
# run SECONDS COMMAND...: within so many and within the stage's. Status 3: the stage's time has run out.
run() {
  local most=$1 seconds status=0
  shift
  say "+ $*"
  ((dry)) && return
  seconds=$(left)
  ((seconds > 5)) || { say "no time is left in this stage: start it again"; return 3; }
  ((seconds <= most)) || seconds=$most
  timeout -k 5 "$seconds" "$@" || status=$?
  if ((status == 124 || status == 137)); then
    ((seconds == most)) || { say "cut off at the end of the stage: start it again"; return 3; }
    say "took longer than $most seconds: $*"
  fi
  return $status
}
# once NAME SECONDS COMMAND...: what has not been run with success since the last build. A failure does not end the stage.
once() {
  local name=$1 status=0
  shift
  if ((!dry)) && [[ -e $build/done/$name ]]; then say "= done before: ${*:2}"; return; fi
  ((dry)) || mkdir -p "$build/done" "$build/logs"
  if ((dry)); then run "$@"; else run "$@" 2>&1 | tee "$build/logs/$name.log" || status=$?; fi
  case $status in
    0) ((dry)) || : >"$build/done/$name" ;;
    3) unfinished=1 ;;
    *) failed+=("$name"); say "perf/gpu/run.sh: $name failed with status $status" ;;
  esac
}
# Begins each stage, and ends the build: without the card or a library, other kernels than a user's would be tried. The C++ programs look where Python has found the libraries.
doctor() {
  local said status=0
  export PYTHONPATH=$build/python
  [[ -d $build/python/lamina ]] || ((dry)) || fail "there is nothing in $build" "fix: perf/gpu/run.sh build"
  say "+ $python -m lamina doctor --needs gpu cuBLASLt cuDNN"
  ((!dry)) || return 0
  said=$(timeout 60 "$python" -m lamina doctor --needs gpu cuBLASLt cuDNN) || status=$?
  say "$said"
  ((!status)) || fail "doctor has found that something is missing" "fix: what it says above; libraries go into the environment of $python"
  LAMINA_CUDA_LIBRARIES=$(sed -n 's|.*: found \(/.*\)/[^/]*$|\1|p' <<<"$said" | paste -sd:)
  export LAMINA_CUDA_LIBRARIES
}
# All that was found so far in one file, for a machine that may go: after each stage, and when one fails.
archive() {
  local name there=()
  for name in built done logs results latencies.json epochs.json parts.json wire.json; do
    [[ ! -e $build/$name ]] || there+=("$name")
  done
  ((!dry && ${#there[@]})) || return 0
  tar -czf "$archive.new" -C "$build" "${there[@]}"
  mv "$archive.new" "$archive"
  say "what was found so far: $archive"
}
trap archive EXIT
card_file() { nvidia-smi --query-gpu=name --format=csv,noheader | head -1 | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' -; }

build_stage() {
  local card before
  card=${LAMINA_GPU_ARCHITECTURE:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)} || true
  [[ -n $card ]] || { ((dry)) && card=90; } || fail "nvidia-smi names no GPU" "fix: run this on a machine with an NVIDIA GPU and its driver, set LAMINA_GPU_ARCHITECTURE=90a, or add --dry-run"
  [[ $card != 90 ]] || card=90a
  run 600 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLAMINA_CUDA=ON -DLAMINA_CUDA_ARCHITECTURES="$card" -DPython_EXECUTABLE="$python" -DCMAKE_PREFIX_PATH="$build/packed"
  # Microbenchmarks come first, and need nothing of Lamina.
  run 600 nvcc -O3 -std=c++17 -arch="sm_$card" -o "$build/latencies" "$root/perf/gpu/latencies.cu"
  run 600 nvcc -O2 -std=c++20 -fmad=false --expt-relaxed-constexpr -arch="sm_$card" -I"$root" -o "$build/instructions" "$root/perf/gpu/instructions.cu"
  run 600 nvcc -O1 -g -lineinfo -std=c++17 -arch="sm_$card" -o "$build/planted" "$root/perf/gpu/planted.cu"
  run 600 ninja -C "$build" lamina_package _core
  run 600 ninja -C "$build" lamina_tests lamina_wire
  if ((!dry)); then
    # What was found and measured before is another program's, unless nothing has changed.
    before=$(cat "$build/built" 2>/dev/null || true)
    cat "$build/python/lamina"/*.so "$build/lamina_tests" "$build/lamina_wire" "$build/latencies" "$build/instructions" "$build/planted" | sha256sum >"$build/built"
    [[ $before == "$(<"$build/built")" ]] || rm -rf "$build/done" "$build/results"
  fi
  [[ -n ${LAMINA_GPU_ARCHITECTURE:-} ]] || doctor
}

# First the latencies that decide between designs; then each instruction that the emulation has a twin of, the kernels of all ops, training, products and random graphs,
# so many at once as there are processors, against double precision on the CPU.
check_stage() {
  doctor
  once latencies 60 bash -o pipefail -c '"$1" | tee "$2"' latencies "$build/latencies" "$build/latencies.json"
  ((dry)) || [[ ! -s $build/latencies.json ]] || cp "$build/latencies.json" "$results/latencies-$(card_file).json"
  once instructions 120 "$build/instructions"
  once kernels 240 "$python" "$root/perf/gpu/kernels.py" "$build/lamina_tests" --limit "$(($(left) - 10))"
  once cudnn 120 env LAMINA_CUDNN=always "$python" "$root/perf/gpu/kernels.py" "$build/lamina_tests" --only 'conv2d*' --limit "$(($(left) - 10))"
  once card 60 "$build/lamina_tests" --gtest_brief=1 '--gtest_filter=OnACard.*-OnACard.TheKernelsOfAllOps*'
  once training 120 "$python" "$root/perf/gpu/check.py" --device gpu:0
  once epochs 120 env LAMINA_CUDA_INFEED=on "$python" "$root/perf/gpu/epochs.py" --device gpu:0 --json "$build/epochs.json"
  ((dry)) || [[ ! -s $build/epochs.json ]] || cp "$build/epochs.json" "$results/epochs-$(card_file).json"
  once parts 120 "$python" "$root/perf/gpu/parts.py" --json "$build/parts.json"
  ((dry)) || [[ ! -s $build/parts.json ]] || cp "$build/parts.json" "$results/parts-$(card_file).json"
  once wire 120 "$build/lamina_wire" "$build/wire.json"
  ((dry)) || [[ ! -s $build/wire.json ]] || cp "$build/wire.json" "$results/wire-$(card_file).json"
  once nccl 120 "$build/lamina_tests" --gtest_brief=0 '--gtest_filter=NcclOnACard.*'
  once products 120 "$python" "$root/perf/gpu/products.py"
  once graphs 600 "$python" "$root/perf/gpu/graphs.py" "$build/lamina_tests" "$build/done/seeds" --limit "$(($(left) - 10))"
}

# Each tool must find the bug that is planted for it, nothing in the program without one, and nothing in ours.
sanitize_stage() {
  doctor
  local tool mode
  command -v compute-sanitizer >/dev/null || ((dry)) || fail "there is no compute-sanitizer" "fix: install the CUDA toolkit's, or pip install nvidia-cuda-sanitizer-api"
  for tool in memcheck racecheck initcheck synccheck; do
    once "sanitize.$tool" 150 "$python" "$root/perf/gpu/tools.py" sanitize "$tool" "$build/planted" "$python" "$root/perf/gpu/check.py" --device gpu:0 --layers 3 --steps 2 --batches 3
  done
  # Nsight Compute runs the kernel again, or the program: the benchmark's step.
  command -v ncu >/dev/null || ((dry)) || { failed+=("ncu"); say "there is no ncu: kernel and application replay are not tried"; return; }
  for mode in kernel application; do
    once "profile.$mode" 150 "$python" "$root/perf/gpu/tools.py" profile "$mode" 120 "$python" "$root/perf/gpu/check.py" --device gpu:0 --profile 2 --batches 20
  done
}

time_stage() {
  doctor
  # Rows are kept in the build folder until all of a network's are there, so that a figure stands beside others of the same run only.
  local status=0
  run 600 "$python" "$root/perf/gpu/times.py" "$1" --device gpu:0 --limit "$(($(left) - 15))" --kept "$build/results" || status=$?
  case $status in
    0) ;;
    3) unfinished=1 ;;
    *) failed+=("time $1") ;;
  esac
}

pack_stage() {
  local from path
  # zlib as a shared library, which every machine can load: the archive is not made for being a part of one.
  say "+ gathering nlohmann_json, KissFFT, zlib and GoogleTest from /usr in $build/packed"
  ((dry)) || rm -rf "$build/packed"
  for from in include/nlohmann include/kissfft share/cmake/nlohmann_json include/gtest include/gmock include/zlib.h include/zconf.h lib/*/libz.so lib/*/libgtest*.a lib/*/libgmock*.a lib/*/cmake/GTest; do
    for path in /usr/$from; do
      [[ -e $path ]] || fail "there is no $path" "fix: ./dev setup, or apt-get install nlohmann-json3-dev libkissfft-dev zlib1g-dev libgtest-dev libgmock-dev"
      ((!dry)) || continue
      mkdir -p "$build/packed/$(dirname "${path#/usr/}")"
      cp -rL "$path" "$build/packed/$(dirname "${path#/usr/}")/"
    done
  done
  ((dry)) || say "$(du -sm "$build/packed" | cut -f1) MiB: bring build-gpu/packed with the tree"
}

(($#)) || fail "no stage is named" "fix: build, check, sanitize, time NET or pack; --dry-run before them prints what they would do"
while (($#)); do
  began=$SECONDS
  case $1 in
    --dry-run) dry=1 ;;
    --limit)
      [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--limit needs seconds" "fix: --limit 280 check"
      limit=$2
      shift
      ;;
    build | check | sanitize | pack)
      "$1_stage"
      archive
      ;;
    time)
      (($# > 1)) || fail "time needs a word more" "fix: time hundred, policy, wide30, ensemble, conv or lstm"
      time_stage "$2"
      archive
      shift
      ;;
    *) fail "there is no stage $1" "fix: build, check, sanitize, time NET or pack; --dry-run before them prints what they would do" ;;
  esac
  shift
done
((!${#failed[@]})) || fail "failed: ${failed[*]}" "see build-gpu/logs; what is well is not run again"
((!unfinished)) || exit 3
