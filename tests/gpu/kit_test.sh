#!/usr/bin/env bash
# Runs prepare.sh and run.sh as they are run for a GPU, on a small model and the look-alike driver: build folder, the
# driver's library, a scratch folder. Also that a wrong number makes run.sh fail.
set -euo pipefail
build=$1 driver=$2 scratch=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
spec=$here/../../specs/tests/tiny-looped.toml
rm -rf "$scratch"

"$here/prepare.sh" --build "$build" --target cuda:sm_80 --ptx-only --numbers "$spec" --speed "$spec" --out "$scratch/kit"
export SMELT_CUDA_LIBRARY=$driver
run=("$scratch/kit/source/tests/gpu/run.sh" --kit "$scratch/kit" --check "$build/bin/smelt-gpu-check" --no-peers
     --out "$scratch/results.json" -- --batch 1,9 --prefill 20 --context 8 --steps 3 --read-mib 2)

"${run[@]}" | tee "$scratch/table"
grep -q "^  read .* GB/s" "$scratch/table"
grep -q "numbers: 3 of 3 cases right" "$scratch/table"
grep -q "^tiny-looped  *decode batch 9 " "$scratch/table"
grep -q "^tiny-looped  *prefill prompt 20 " "$scratch/table"

# A reference that differs: the last byte of its last number.
printf '\x7f' | dd of="$scratch/kit/numbers/tiny-looped/logits.npy" bs=1 conv=notrunc status=none \
  seek=$(($(stat -c %s "$scratch/kit/numbers/tiny-looped/logits.npy") - 1))
if "${run[@]}" >"$scratch/table" 2>&1; then
  echo "run.sh accepts a wrong number" >&2
  exit 1
fi
grep -q "WRONG tiny-looped" "$scratch/table"
