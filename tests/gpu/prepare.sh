#!/usr/bin/env bash
# Prepares what run.sh needs on a machine with a GPU and without LLVM: sources, compiled artifacts, and references
# from the double precision interpreter. Run it where the compiler is built:
#
#   tests/gpu/prepare.sh --build build --target cuda:sm_90a --out gpu-kit
#
# and carry gpu-kit (at most 64 MiB) to the GPU; there: gpu-kit/source/tests/gpu/run.sh --kit gpu-kit
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$source/build target=cuda:sm_90a out=gpu-kit tokens=40 numbers= speed= ptx= gemv=1848,616,8,1512,1848
usage() {
  echo "usage: prepare.sh [--build FOLDER] [--target cuda:ARCH,...] [--out FOLDER] [--ptx-only]
                  [--numbers SPEC,...] [--speed SPEC,...]   defaults: all of specs/tests; 100M to 1.6B cells
                  [--gemv HIDDEN,EXPERT_HIDDEN,TOP_K,IN,OUT]   of the kernels timed alone, default: the 1.6B cell's" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
  --build) build=$2 ;;
  --target) target=$2 ;;
  --out) out=$2 ;;
  --numbers) numbers=$2 ;;
  --speed) speed=$2 ;;
  --gemv) gemv=$2 ;;
  --ptx-only) ptx=--ptx-only && shift && continue ;;
  *) usage ;;
  esac
  shift 2 || usage
done
smeltc=$build/bin/smeltc interpret=$build/bin/smelt-interpret kernels=$build/bin/smelt-gpu-kernels
for program in "$smeltc" "$interpret" "$kernels"; do
  [ -x "$program" ] || { echo "prepare.sh: $program is missing; build it, or name the build folder with --build" >&2; exit 2; }
done
[ -n "$numbers" ] || numbers=$(echo "$source"/specs/tests/*.toml | tr ' ' ,)
if [ -z "$speed" ]; then
  speed=$(for cell in 100m 200m 600m 1.6b; do echo "$source/specs/smelt/smelt-$cell-s97.toml"; done | paste -sd,)
fi

rm -rf "$out"
mkdir -p "$out/numbers" "$out/speed"

# What the GPU machine builds: the runtime, its checks, and the headers they include.
for file in LICENSE runtime tests/gpu tests/support/Compare.h tests/support/Npy.{h,cpp} tests/support/RuntimeModel.{h,cpp}; do
  mkdir -p "$out/source/$(dirname "$file")"
  cp -r "$source/$file" "$out/source/$file"
done
cp "$source/tests/gpu/kit/CMakeLists.txt" "$out/"
mkdir -p "$out/generated/runtime/schema" "$out/include"
cp "$build/runtime/schema/manifest_generated.h" "$out/generated/runtime/schema/"
for header in flatbuffers fmt nlohmann CLI xxhash.h; do
  for folder in /usr/include /usr/local/include; do
    [ ! -e "$folder/$header" ] || { cp -r "$folder/$header" "$out/include/"; break; }
  done
  [ -e "$out/include/$header" ] || { echo "prepare.sh: the header(s) $header are missing in /usr/include" >&2; exit 2; }
done

# Token ids that use the whole vocabulary, the same every time.
token_list() {
  awk -v vocab="$1" -v count="$2" 'BEGIN { x = 12345; for (i = 0; i < count; ++i) {
    x = (x * 1103515245 + 12345) % 2147483648; printf "%s%d", i ? "," : "", int(x / 65536) % vocab } }'
}
IFS=,
for spec in $numbers; do
  case=$out/numbers/$(basename "$spec" .toml)
  mkdir -p "$case"
  "$smeltc" weights init "$spec" -o "$case/weights.safetensors" --dtype bf16 --seed 7 >/dev/null
  "$smeltc" compile "$spec" -o "$case/model.smelt" --target "cpu,$target" --weights-dtype bf16 $ptx >/dev/null
  "$smeltc" compile "$spec" --emit smelt --weights-dtype bf16 >"$case/model.mlir"
  ids=$(token_list "$(sed -n 's/^vocab_size *= *//p' "$spec")" "$tokens")
  echo "[$ids]" >"$case/tokens.json"
  "$interpret" "$case/model.mlir" --weights "$case/weights.safetensors" --tokens "$ids" \
    --logits "$case/logits.npy" --routing "$case/routing.json" >/dev/null
  rm "$case/model.mlir"
  echo "prepared $(basename "$case")"
done
for spec in $speed; do
  [ "$spec" != none ] || continue
  "$smeltc" compile "$spec" -o "$out/speed/$(basename "$spec" .toml).smelt" --target "cpu,$target" \
    --weights-dtype bf16 $ptx >/dev/null
  cp "$spec" "$out/speed/"
  echo "prepared $(basename "$spec" .toml)"
done

IFS=, read -r hidden expert_hidden top_k in out_size <<<"$gemv"
"$kernels" "$out/kernels.json" --target "${target%%,*}" --hidden "$hidden" --expert-hidden "$expert_hidden" \
  --top-k "$top_k" --in "$in" --out "$out_size"
echo "prepared kernels"

size=$(du -sm "$out" | cut -f1)
echo "$out: $size MiB"
[ "$size" -le 64 ] || { echo "prepare.sh: more than 64 MiB; leave out models with --speed" >&2; exit 1; }
