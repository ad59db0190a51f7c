"""The benchmark's safetensors files as numpy arrays, and the specs beside them."""
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from shapes import read_shape  # noqa: E402,F401

NUMPY = {"F32": numpy.float32, "BF16": numpy.uint16}


class Weights:
    """Tensors by name, mapped from the file. bf16 ones are arrays of their 16 bits."""

    def __init__(self, path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            self.header = json.loads(file.read(length))
        self.header.pop("__metadata__", None)
        self.data = numpy.memmap(path, dtype=numpy.uint8, mode="r", offset=8 + length)

    def bits(self, name):
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return self.data[begin:end].view(NUMPY[entry["dtype"]]).reshape(entry["shape"])

    def f32(self, name):
        bits = self.bits(name)
        return bits if bits.dtype == numpy.float32 else (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def to_bf16(values):
    """f32 to the bits of the nearest bf16, ties to even."""
    bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
