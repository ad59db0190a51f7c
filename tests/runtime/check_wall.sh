#!/bin/sh
# Fails unless the runtime stands alone: smelt-run needs libc, libm, libdl and libpthread at most, and neither it
# nor the library knows a symbol of LLVM or MLIR.
set -eu
program=$1
library=$2

strangers=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc|libm|libdl|libpthread|ld-linux-x86-64)\.so\.[0-9]+$' || true)
if [ -n "$strangers" ]; then
  echo "$program needs more than libc, libm, libdl and libpthread:" $strangers >&2
  exit 1
fi
for file in "$program" "$library"; do
  if nm -C "$file" 2>/dev/null | grep -E '\b(llvm|mlir)::' >&2; then
    echo "$file has symbols of LLVM or MLIR" >&2
    exit 1
  fi
done
echo "the runtime stands alone"
