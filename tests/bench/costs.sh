#!/usr/bin/env bash
# Measures compile time, the time to the first token and peak memory, and prints tables with their ratios; see README.md
# here, or --help.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/costs.py" "$@"
