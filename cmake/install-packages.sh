#!/usr/bin/env bash
# Installs the packages of cmake/packages.txt that are missing. Does nothing, and needs no network, when none is.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
missing=()
while read -r package; do
  if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]]; then
    missing+=("$package")
  fi
done < <(grep -v '^#' "$list")

if ((${#missing[@]} == 0)); then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "error: these Debian packages are missing and there is no apt-get: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "error: install these packages as root, then run this again: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing with apt-get: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; then
  echo "error: apt-get could not install the packages; LLVM 22 is in Debian 12 security updates and newer," >&2
  echo "       and at https://apt.llvm.org for other releases" >&2
  exit 1
fi
