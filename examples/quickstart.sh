#!/usr/bin/env bash
# From a fresh Debian machine to tokens from a looped sparse model, in one command:
#
#   1. installs the Debian packages of cmake/packages.txt that are missing (as root, or with sudo);
#   2. builds smeltc into build/;
#   3. derives a looped model from a small published baseline, gives it random weights, compiles and runs it;
#   4. does the same with the published SMELT 200M cell at 95 % sparsity (3.9 billion parameters, 7.4 GiB of weights)
#      when memory and disk allow.
#
# Everything it makes is under build/; running it again reuses what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=build/quickstart
smeltc=build/bin/smeltc
prompt=$(seq -s, 1 128)
started=$SECONDS

step() { printf '\n==> %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

# The number that a key has in the JSON of `smeltc inspect SPEC`.
inspect_number() { "$smeltc" inspect "$1" --json | grep -o "\"$2\": [0-9]*" | head -1 | grep -o '[0-9]*$'; }
gib() { awk -v bytes="$1" 'BEGIN { printf "%.1f GiB", bytes / 1024 ^ 3 }'; }

# Whether a spec's bf16 weights fit the disk and, with room for the KV cache and the rest, the memory.
fits() {
  local weights memory disk
  weights=$(inspect_number "$1" weights_bf16)
  memory=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
  disk=$(($(df --output=avail -k "$out" | tail -1) * 1024))
  if [[ -f "$out/$(basename "$1" .toml).safetensors" ]]; then
    disk=$((disk + weights))
  fi
  echo "$(basename "$1" .toml) needs $(gib "$weights") of disk and about $(gib $((weights + (1 << 30)))) of memory;" \
    "there are $(gib "$disk") and $(gib "$memory")"
  ((disk > weights + (1 << 28) && memory > weights + (1 << 30)))
}

# weights, compile, run
make_and_run() {
  local spec=$1 name
  name=$(basename "$spec" .toml)
  if [[ "$out/$name.safetensors" -nt "$spec" ]]; then
    echo "$out/$name.safetensors is there already"
  else
    show "$smeltc" weights init "$spec" -o "$out/$name.safetensors" --seed 1 --dtype bf16
  fi
  show "$smeltc" compile "$spec" -o "$out/$name.smelt" --weights-dtype bf16
  printf '$ %s\n' "$smeltc run $out/$name.smelt --weights $out/$name.safetensors --tokens 1,2,...,128 --max-new-tokens 32"
  "$smeltc" run "$out/$name.smelt" --weights "$out/$name.safetensors" --tokens "$prompt" --max-new-tokens 32
}

# Replaces a file by a new version unless they are equal, so that what was made from it stays valid.
replace_if_changed() {
  if cmp -s "$1" "$2"; then rm "$1"; else mv "$1" "$2"; fi
}

step "Debian packages"
cmake/install-packages.sh

step "Building smeltc (some minutes the first time)"
cmake --preset release
cmake --build --preset release --target smeltc smelt-run
mkdir -p "$out"
show "$smeltc" doctor

step "A looped model with the budgets of the 100M baseline"
show "$smeltc" plan specs/smelt/baseline-100m-s85.toml --span 0.5 --visits 2 -o "$out/new.toml"
replace_if_changed "$out/new.toml" "$out/looped-100m-s85.toml"
make_and_run "$out/looped-100m-s85.toml"
done_with="a looped model derived from the 100M baseline at 85 % sparsity"

step "The published SMELT 200M cell at 95 % sparsity"
if fits specs/smelt/smelt-200m-s95.toml; then
  show "$smeltc" plan specs/smelt/baseline-200m-s95.toml --span 0.5 --visits 2
  show "$smeltc" budget specs/smelt/smelt-200m-s95.toml
  make_and_run specs/smelt/smelt-200m-s95.toml
  done_with="$done_with, and the published 200M cell at 95 %"
elif fits specs/smelt/smelt-100m-s85.toml; then
  echo "It does not fit this machine; the published 100M cell at 85 % sparsity instead:"
  make_and_run specs/smelt/smelt-100m-s85.toml
  done_with="$done_with, and the published 100M cell at 85 %"
else
  echo "Neither it nor the 100M cell fits this machine."
fi

step "Done in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"
echo "Planned, initialised, compiled and ran $done_with."
echo "The files are in $out ($(du -sh "$out" | cut -f1)); remove the folder to get the space back."
