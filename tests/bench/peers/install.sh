#!/usr/bin/env bash
# Makes the virtual environment that the peers run in: tests/bench/peers/install.sh DIRECTORY [llama.cpp] [torch]
#
# Everything comes from PyPI. llama-cpp-python is compiled for this machine, which takes some ten minutes on two cores;
# PyTorch's default wheel brings its CUDA libraries along, about 5 GB. Nothing but the benchmark's --peer needs either.
# Done once: a peer that is installed already is left alone.
set -euo pipefail
directory=$1
shift
python=$directory/bin/python
[ -x "$python" ] || python3 -m venv "$directory"
has() { "$python" -c "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))" "$@"; }

for peer in "$@"; do
  case $peer in
  llama.cpp)
    has llama_cpp gguf ||
      CMAKE_ARGS="-DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
        "$python" -m pip install --no-binary llama-cpp-python "llama-cpp-python==0.3.36" "gguf==0.19.0"
    ;;
  torch) has torch transformers || "$python" -m pip install "torch==2.15.0" transformers ;;
  *)
    echo "$0: unknown peer '$peer'; known are llama.cpp and torch" >&2
    exit 2
    ;;
  esac
done
