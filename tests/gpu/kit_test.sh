#!/usr/bin/env bash
# Runs prepare.sh and run.sh as they are run for a GPU, on a small model, the look-alike driver and the stand-in for
# cuBLASLt: build folder, the two libraries, a scratch folder, and how smelt-gpu-check comes about: "given" takes the
# build folder's, "built" lets run.sh build it from the kit with g++, as on a machine without LLVM. Also that a wrong
# number makes run.sh fail.
set -euo pipefail
build=$1 driver=$2 cublas=$3 scratch=$4 how=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
spec=$here/../../specs/tests/tiny-looped.toml
rm -rf "$scratch"

"$here/prepare.sh" --build "$build" --target cuda:sm_80 --ptx-only --numbers "$spec" --speed "$spec" \
  --gemv 72,36,3,40,72 --out "$scratch/kit"
export SMELT_CUDA_LIBRARY=$driver SMELT_CUBLAS_LIBRARY=$cublas
# So few that a block of the kernels that measure limits has more than one round of work in a small memory.
export SMELT_TEST_CUDA_MULTIPROCESSORS=3
run=("$scratch/kit/source/tests/gpu/run.sh" --kit "$scratch/kit" --no-peers --out "$scratch/results.json")
if [ "$how" = built ]; then
  # What counts is that it compiles and runs: without optimisation, and again from a cache where there is one.
  export CXX=g++ CXXFLAGS=-O0
  ! command -v ccache >/dev/null || export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  run+=(--build "$scratch/kit/build" --debug)
else
  run+=(--check "$build/bin/smelt-gpu-check")
fi
run+=(-- --batch 1,9,33 --prefill 40 --context 8 --steps 3 --read-mib 2 --barrier-rounds 4 --products 33x40x24)

"${run[@]}" | tee "$scratch/table"
limits=("reads at most .* GB/s" "reading by loads, 4 blocks a multiprocessor: .* GB/s")
for copies in "16 KiB, 14" "16 KiB, 7" "32 KiB, 7" "32 KiB, 3" "64 KiB, 3" "64 KiB, 1"; do
  limits+=("reading by bulk copies of $copies in flight a block, .* GB/s")
done
for edges in ordinary programmatic; do
  limits+=("a node of a graph, $edges edges, nothing: .* us" "a node of a graph, $edges edges, a number read .* us")
done
limits+=("a barrier of 3 blocks, nothing: .* us" "a barrier of 3 blocks, a number of every .* us")
limits+=("cuBLASLt 33 x 40 x 24, all aligned to 16 bytes: .* us")
for part in rows pointers; do
  for bytes in 8 4 2; do
    limits+=("cuBLASLt 33 x 40 x 24, $part aligned to $bytes bytes: .* us")
  done
done
limits+=("gate and up of 3 experts of 36 x 72, 8 rows by 1 warp: .* GB/s" "a dense product of 72 x 40, 4 rows by 1 warp: .* GB/s")
limits+=("gate and up .*, 8 rows by 4 warps, the compiler's choice: .* us" "a dense product .*, 1 row by 1 warp, the compiler's choice: ")
for limit in "${limits[@]}"; do
  grep -q "^  $limit" "$scratch/table" || { echo "the table lacks: $limit" >&2; exit 1; }
done
grep -q "numbers: 4 of 4 cases right" "$scratch/table"
grep -q "tokens in steps of 512  by cuBLASLt 13.0.0, .* ok" "$scratch/table"
grep -q "^tiny-looped  *decode batch 9  *own kernels " "$scratch/table"
grep -q "^tiny-looped  *decode batch 33  *cuBLASLt 13.0.0 " "$scratch/table"
grep -q "^tiny-looped  *prefill prompt 40  *own kernels " "$scratch/table"
grep -q "^tiny-looped  *prefill prompt 40  *cuBLASLt 13.0.0 " "$scratch/table"
grep -q "^    linear_residual .* calls, .* us each" "$scratch/table"
if [ "$how" = built ]; then
  "$scratch/kit/build/bin/smelt-run" --help >/dev/null
  exit
fi

# What another GPU lacks is named, and nothing is in its place.
SMELT_TEST_CUDA_SM=80 SMELT_CUBLAS_LIBRARY= "$build/bin/smelt-gpu-check" --read-mib 1 --barrier-rounds 4 --json "$scratch/other.json" >/dev/null
"$here/table.py" "$scratch/other.json" >"$scratch/table"
grep -q "^  skipped: reading by bulk copies: they take compute capability 9.0" "$scratch/table"
grep -q "^  skipped: nodes of a graph with programmatic edges: they take compute capability 9.0" "$scratch/table"
grep -q "^  skipped: products by cuBLASLt: there is none" "$scratch/table"
[ "$(grep -c "^  skipped: " "$scratch/table")" = 3 ]
if grep "^  reading by bulk\|^  a node .* programmatic" "$scratch/table" >&2; then
  echo "the table has what this GPU lacks" >&2
  exit 1
fi

# A reference that differs: the last byte of its last number.
printf '\x7f' | dd of="$scratch/kit/numbers/tiny-looped/logits.npy" bs=1 conv=notrunc status=none \
  seek=$(($(stat -c %s "$scratch/kit/numbers/tiny-looped/logits.npy") - 1))
# It is what the exit status tells, though peers could not be measured either: this torch is none.
mkdir "$scratch/python"
echo 'raise ImportError("no torch here")' >"$scratch/python/torch.py"
status=0
PYTHONPATH=$scratch/python "${run[@]/#--no-peers/--debug}" >"$scratch/table" 2>&1 || status=$?
[ "$status" = 1 ] || { echo "run.sh answers a wrong number with $status" >&2; exit 1; }
grep -q "WRONG tiny-looped" "$scratch/table"
grep -q "not measured: peers: .*; they need Python 3.11 with torch" "$scratch/table"
