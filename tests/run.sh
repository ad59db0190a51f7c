#!/usr/bin/env bash
# Builds everything and runs every test:
#
#   build/          all unit tests and lit tests
#   build-runtime/  the runtime alone, without the compiler: it must build, and contain nothing of LLVM
#   build-asan/     parsers, readers and the runtime under AddressSanitizer and UndefinedBehaviorSanitizer, and some
#                   seconds of every fuzz target
#
# The last line is "N passed, N failed, N skipped"; failed and skipped tests are named before it. Exits 1 when a test
# failed. Missing Debian packages are installed first.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=build/test-results
jobs=$(nproc)

# What is checked under sanitizers: all that reads files from outside, and the runtime's threads and kernels.
asan_targets=(smelt_spec_test smelt_budget_test smelt_weights_test runtime-files runtime-execution runtime-command
  smelt_spec_fuzzer smelt_hf_config_fuzzer smelt_artifact_fuzzer smelt_safetensors_fuzzer smelt_npy_fuzzer)

step() { printf '\n==> %s\n' "$*"; }

# Records a test of this script itself: record NAME STATUS
record() {
  if (($2 == 0)); then echo "pass $1"; else echo "fail $1"; fi >>"$results/steps.txt"
  return "$2"
}

build() { # preset, name of the test, targets
  local preset=$1 name=$2
  shift 2
  step "Build: $preset $*"
  cmake --preset "$preset" && cmake --build --preset "$preset" ${1:+--target "$@"}
  record "$name" $?
}

run_ctest() { # build folder, name of the results, arguments of ctest
  local folder=$1 name=$2
  shift 2
  ctest --test-dir "$folder" --output-on-failure --timeout 1200 -j "$jobs" --output-junit "$PWD/$results/$name.xml" "$@"
}

rm -rf "$results"
mkdir -p "$results"
cmake/install-packages.sh || exit 1

if build release "build"; then
  step "Unit tests"
  run_ctest build unit -E '^lit$'
  step "lit tests"
  /usr/lib/llvm-22/bin/lit -sv -j "$jobs" -o "$results/lit.json" build/tests
fi

if build runtime "build of the runtime alone"; then
  run_ctest build-runtime runtime-alone -R '^runtime-wall$'
fi

if build asan "build with sanitizers" "${asan_targets[@]}"; then
  step "Tests with sanitizers"
  run_ctest build-asan asan -R "^($(IFS='|' && echo "${asan_targets[*]}"))"
fi

step "Results"
python3 tests/summary.py "$results"
