#!/usr/bin/env bash
# Measures compiled models on this machine and prints one table, with the machine's own limits beside it.
#
#   tests/bench/run.sh [--small] [-- OPTIONS OF smelt-bench]
#
# Compiles each spec for f32 and bf16 weights, writes random weights that keep routing even, and runs smelt-bench on
# all of them. Needs a finished build in build/ (or SMELT_BUILD) and, without --small, 12 GB in SMELT_BENCH_DIR
# (default: build/bench), which is kept for the next run.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${SMELT_BUILD:-$root/build}
work=${SMELT_BENCH_DIR:-$build/bench}
specs=(tests/tiny-moe smelt/baseline-100m-s85 smelt/smelt-100m-s85 smelt/smelt-200m-s85)
if [ "${1:-}" = --small ]; then
  specs=(tests/tiny-moe)
  shift
fi
[ "${1:-}" = -- ] && shift
mkdir -p "$work"
models=()
for spec in "${specs[@]}"; do
  name=$(basename "$spec")
  for dtype in f32 bf16; do
    model=$work/$name-$dtype
    "$build/bin/smeltc" compile "$root/specs/$spec.toml" -o "$model.smelt" --weights-dtype $dtype
    [ -e "$model.safetensors" ] ||
      "$build/bin/smeltc" weights init "$root/specs/$spec.toml" -o "$model.safetensors" --seed 1 --dtype $dtype
    models+=("$model.smelt=$model.safetensors")
  done
done
"$build/bin/smelt-bench" "$@" "${models[@]}"
