#!/usr/bin/env bash
# Measures compiled models on this machine and prints one table, with the machine's own limits beside it; see README.md
# here, or --help.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/run.py" "$@"
