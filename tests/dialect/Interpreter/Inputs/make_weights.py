"""Writes the weights of smelt_interpret.mlir: embedding = diag(2, 2, 4); expert 0 and 2 the identity and their
neighbour's column, in bf16."""
import json
import struct
import sys

embedding = [[2, 0, 0], [0, 2, 0], [0, 0, 4]]
experts = [
    [[1, 0, 0], [0.5, 0, 0], [0, 0, 0]],
    [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
    [[0, 0, 0], [0, 0, 0.5], [0, 0, 1]],
]


def f32(rows):
    return b"".join(struct.pack("<f", value) for row in rows for value in row)


def bf16(rows):
    return b"".join(struct.pack("<f", value)[2:] for row in rows for value in row)


tensors = [("embedding", "F32", f32(embedding))]
tensors += [(f"layers.1.experts.{i}", "BF16", bf16(rows)) for i, rows in enumerate(experts)]
header, offset = {}, 0
for name, dtype, data in tensors:
    header[name] = {"dtype": dtype, "shape": [3, 3], "data_offsets": [offset, offset + len(data)]}
    offset += len(data)
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors))
