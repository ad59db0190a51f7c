"""Prints a little-endian f64 matrix that numpy.save could have written."""
import ast
import struct
import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
assert data[:8] == b"\x93NUMPY\x01\x00"
size = struct.unpack("<H", data[8:10])[0]
assert (10 + size) % 64 == 0 and data[9 + size : 10 + size] == b"\n"
header = ast.literal_eval(data[10 : 10 + size].decode())
assert not header["fortran_order"]
print(header["descr"], header["shape"])
rows, columns = header["shape"]
values = struct.unpack(f"<{rows * columns}d", data[10 + size :])
for row in range(rows):
    print(*values[row * columns : (row + 1) * columns])
