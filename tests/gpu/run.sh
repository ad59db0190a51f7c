#!/usr/bin/env bash
# Checks and times compiled models on a machine with a GPU, without LLVM: builds the runtime with CMake and the host's
# compiler, compares every prepared case with its reference, measures the GPU's own limits, times decoding and prefill
# with splat weights, and runs the strongest transformers baselines beside them. Prints one table. prepare.sh makes the
# kit this needs. Exit status: 0, 1 a number is wrong, 2 nothing could be measured, 3 something could not, which the
# table names. Results are written after each part, so a run that is cut off leaves what it had.
#
#   gpu-kit/source/tests/gpu/run.sh --kit gpu-kit [--quick] [--no-peers] [--out results.json]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
kit=$source/.. build= check= out=results.json device=cuda peers=1 type=Release
arguments=()
usage() {
  echo "usage: run.sh [--kit FOLDER] [--build FOLDER | --check PROGRAM] [--device cuda[:N]] [--out FILE.json]
              [--quick] [--no-peers] [--debug] [-- arguments of smelt-gpu-check]" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
  --kit) kit=$2 && shift ;;
  --build) build=$2 && shift ;;
  --check) check=$2 && shift ;;
  --device) device=$2 && shift ;;
  --out) out=$2 && shift ;;
  --quick) arguments+=(--batch 1,8 --prefill 128,2048 --steps 20) ;;
  --no-peers) peers= ;;
  --debug) type=Debug ;; # builds faster; for trying the kit, not for timing
  --) shift && arguments+=("$@") && break ;;
  *) usage ;;
  esac
  shift || usage
done

[ -d "$kit/numbers" ] || { echo "run.sh: $kit is no kit of prepare.sh: numbers/ is missing; name one with --kit" >&2; exit 2; }
missing=$(for program in python3 $([ -n "$check" ] || echo cmake); do command -v "$program" >/dev/null || echo " $program"; done)
[ -z "$missing" ] || { echo "run.sh: not found, needed:" $missing >&2; exit 2; }
rm -f "$out" # what an earlier run measured is not this one's

if [ -z "$check" ]; then
  build=${build:-$kit/build}
  echo "building in $build"
  cmake -S "$kit" -B "$build" "-DCMAKE_BUILD_TYPE=$type" >"$kit/cmake.log" ||
    { echo "run.sh: CMake cannot configure the kit, see above and $kit/cmake.log" >&2; exit 2; }
  cmake --build "$build" --target smelt-gpu-check smelt-run --parallel "$(nproc)" >"$kit/build.log" 2>&1 ||
    { grep -E -A3 "error|Error" "$kit/build.log" | head -40 >&2; echo "run.sh: the build failed, see $kit/build.log" >&2; exit 2; }
  check=$build/bin/smelt-gpu-check
fi

speed=()
for artifact in "$kit"/speed/*.smelt; do
  [ -e "$artifact" ] && speed+=("$artifact")
done
[ ! -e "$kit/kernels.json" ] || arguments=(--kernels "$kit/kernels.json" ${arguments[@]:+"${arguments[@]}"})
status=0
"$check" --device "$device" --numbers "$kit/numbers" ${speed[@]:+--speed "${speed[@]}"} --json "$out" \
  ${arguments[@]:+"${arguments[@]}"} || status=$?
[ -e "$out" ] || exit "$status"

# Peers come from Python; without torch the table says so. A wrong number stays what the exit status tells first.
notes=()
if [ -n "$peers" ] && [ "${#speed[@]}" -gt 0 ]; then
  peer=0
  if why=$(python3 -c 'import tomllib, torch' 2>&1); then
    python3 "$here/peer_bench.py" --device "$device" --specs "$kit"/speed/*.toml --results "$out" || peer=$?
  else
    peer=3 notes+=("peers: ${why##*$'\n'}; they need Python 3.11 with torch, and --no-peers leaves them out")
  fi
  [ "$status" != 0 ] || status=$peer
fi
python3 "$here/table.py" "$out" ${notes[@]:+"${notes[@]}"}
exit "$status"
