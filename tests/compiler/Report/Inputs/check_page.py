"""Looks at a plan's page in headless Chromium, light and dark: are the pictures there, in their colours?

usage: check_page.py CHROMIUM PAGE FOLDER
"""

import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

WIDTH, HEIGHT = 700, 3000
SCHEMES = {
    # The page's own palette: page, unlooped and looped layers, a point of the best hardware fit.
    "light": ("1", {"page": "ffffff", "once": "7d8fa3", "loop": "c2570c", "fit0": "0b6e4f"}),
    "dark": ("0", {"page": "14171b", "once": "5b6b7d", "loop": "d9752b", "fit0": "5fd3a6"}),
}


def screenshot(chromium, page, path, scheme):
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--force-device-scale-factor=1", f"--window-size={WIDTH},{HEIGHT}",
         f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={path}.profile",
         f"--screenshot={path}", Path(page).resolve().as_uri()],
        check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def unfilter(kind, row, above, size):
    """One row of a PNG, filter undone (PNG specification, section 9)."""
    row = bytearray(row)
    for i in range(len(row)):
        left = row[i - size] if i >= size else 0
        up = above[i]
        if kind == 1:
            row[i] = (row[i] + left) & 255
        elif kind == 2:
            row[i] = (row[i] + up) & 255
        elif kind == 3:
            row[i] = (row[i] + (left + up) // 2) & 255
        elif kind == 4:
            corner = above[i - size] if i >= size else 0
            guess = left + up - corner
            distances = (abs(guess - left), abs(guess - up), abs(guess - corner))
            row[i] = (row[i] + (left, up, corner)[distances.index(min(distances))]) & 255
    return row


def read_png(path):
    """Rows of an 8-bit RGB or RGBA picture, and the bytes of a pixel."""
    data = Path(path).read_bytes()
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 8 or colour not in (2, 6) or interlace:
        sys.exit(f"{path}: a PNG of depth {depth}, colour type {colour}, which is not read here")
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw, size = zlib.decompress(packed), 3 if colour == 2 else 4
    stride, rows = width * size, []
    above = bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        row = raw[start + 1 : start + 1 + stride]
        above = bytearray(row) if raw[start] == 0 else unfilter(raw[start], row, above, size)
        rows.append(above)
    return rows, size


def look(path, colours):
    rows, size = read_png(path)
    found = {name: [] for name in colours}  # rows with the colour, once for each pixel
    names = {bytes.fromhex(colour): name for name, colour in colours.items()}
    for y, row in enumerate(rows):
        pixels = Counter(bytes(row[i : i + 3]) for i in range(0, len(row), size))
        for pixel, count in pixels.items():
            if pixel in names:
                found[names[pixel]] += [y] * count
    return found


def check(ok, what):
    if not ok:
        sys.exit(f"check_page.py: {what}")


def main():
    chromium, page, folder = sys.argv[1:]
    for scheme, (setting, colours) in SCHEMES.items():
        path = str(Path(folder) / f"{scheme}.png")
        screenshot(chromium, page, path, setting)
        found = look(path, colours)
        check(len(found["page"]) > WIDTH * HEIGHT // 2, f"{scheme}: most of the page is not its background")
        check(len(found["once"]) > 10000, f"{scheme}: the unlooped layers are not there")
        check(len(found["loop"]) > 3000, f"{scheme}: the looped layers are not there")
        # The first rows of the loop's colour are the stack's; the plan's bars below may have it, too.
        stack, loop = found["once"], found["loop"][:3000]
        check(min(stack) < loop[0] and loop[-1] < max(stack),
              f"{scheme}: the loop is not between the prelude and the coda")
        check(len(found["fit0"]) > 30, f"{scheme}: the points of the front are not there")
        check(min(found["fit0"]) > max(stack), f"{scheme}: the front is not below the stack")
        print(f"{scheme}: layers, loop and front are where they should be")


main()
