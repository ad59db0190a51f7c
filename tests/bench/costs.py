"""Measures what comes before the first token: compiling, starting with packed weights, and the memory a run takes."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import shapes
from files import Files

# The depths and visits that code must not depend on.
DEPTHS, VISITS = (12, 120), (1, 8)
READ_BYTES = 1 << 20  # a read of the page cache


def parse_arguments():
    words = lambda text: [part for part in text.split(",") if part]
    parser = argparse.ArgumentParser(prog="tests/bench/costs.sh", description=__doc__)
    parser.add_argument("--model", type=words, default=["smelt-100m-s85"], help=f"of {', '.join(shapes.SPECS)}")
    parser.add_argument("--dtype", type=words, default=["f32", "bf16", "i8"], help="weights: f32, bf16, i8 (default all)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of a run (default: all CPUs)")
    parser.add_argument("--repeats", type=int, default=5, help="of every measurement; medians are printed (default 5)")
    parser.add_argument("--folder", type=pathlib.Path, help="for compiled models and weights (default: BUILD/bench)")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("SMELT_BUILD", shapes.ROOT / "build")), help="a finished build (default: build, or SMELT_BUILD)")
    arguments = parser.parse_args()
    for given, known in ((arguments.model, shapes.SPECS), (arguments.dtype, shapes.DTYPES)):
        for word in given:
            if word not in known:
                parser.error(f"'{word}' is none of {', '.join(known)}")
    arguments.folder = arguments.folder or arguments.build / "bench"
    return arguments


def respec(text, layers, visits):
    """The spec with its segments replaced: half of the layers in the middle, looped when visits are several."""
    head = text[: text.index("[[segment]]")]
    head = re.sub(r"\s*#.*\Z", "\n", head)
    outer = layers // 4
    segment = "\n[[segment]]\nlayers = {}\n"
    loop = f'visits = {visits}\norder = "block"\nkv_cache = "per_visit"\n' if visits > 1 else ""
    return head + segment.format(outer) + segment.format(layers - 2 * outer) + loop + segment.format(outer)


def seconds_of(repeats, call):
    """The median of the wall clock, after a first call that fills caches."""

    def whole():
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return median_of(repeats, whole)


def median_of(repeats, measure):
    measure()
    return statistics.median(measure() for _ in range(repeats))


def silent(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def first_byte_seconds(*command):
    """From before the process is started to the first byte it prints."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        printed = process.stdout.read(1)
        seconds = time.perf_counter() - begin
        process.stdout.read()
    if not printed or process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seconds


def compile_costs(arguments, name, dtype):
    """(what, seconds, bytes) of the spec itself and of every depth and number of visits."""
    smeltc, text = arguments.build / "bin/smeltc", (shapes.ROOT / shapes.SPECS[name]).read_text()
    specs = {name: text} | {f"{layers} layers, {visits} visits": respec(text, layers, visits) for layers in DEPTHS for visits in VISITS}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        spec, artifact = pathlib.Path(folder, "spec.toml"), pathlib.Path(folder, "model.smelt")
        for what, content in specs.items():
            spec.write_text(content)
            seconds = seconds_of(arguments.repeats, lambda: silent(smeltc, "compile", spec, "-o", artifact, "--weights-dtype", dtype))
            rows.append((what, seconds, artifact.stat().st_size))
    return rows


def read_seconds(arguments, path, size):
    """What it takes to read `size` bytes of a file that lies in the page cache, on the run's threads."""
    share = size // arguments.threads

    def read(index):
        buffer = bytearray(READ_BYTES)
        with open(path, "rb", buffering=0) as file:
            for at in range(index * share, (index + 1) * share, READ_BYTES):
                os.preadv(file.fileno(), [buffer], at)

    def all_threads():
        threads = [threading.Thread(target=read, args=(index,)) for index in range(arguments.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return seconds_of(arguments.repeats, all_threads)


def start_costs(arguments, files, name, dtype):
    """Seconds of a process to its first token and to its end, and the memory it took."""
    shape = shapes.read_shape(shapes.SPECS[name])
    files.prepare(name, dtype, shape, [])
    artifact, weights = files.model(name, dtype)
    cache = files.folder / f"{name}-{dtype}.packed"
    run = [arguments.build / "bin/smelt-run", artifact, "--weights", weights, "--tokens", "1", "--max-new-tokens", "1", "--threads", str(arguments.threads)]
    packing = median_of(1, lambda: first_byte_seconds(*run))
    touched = shapes.work(shape, dtype, kv_bytes=0, sequences=1, first=0, tokens=1, steps=1,
                          distinct=shape.top_k * len(shape.executed), passes=1).bytes
    try:
        with_cache = [*run, f"--weights-cache={cache}"]
        cached = median_of(arguments.repeats, lambda: first_byte_seconds(*with_cache))
        whole = seconds_of(arguments.repeats, lambda: silent(*with_cache))
        reading = read_seconds(arguments, cache, int(touched))
    finally:
        cache.unlink(missing_ok=True)
    memory = json.loads(subprocess.run([*run, "--json"], check=True, capture_output=True, text=True).stdout)["memory"]
    return packing, cached, whole, touched, reading, memory


def main():
    arguments = parse_arguments()
    files = Files(arguments)
    print("compile, three code variants for CPUs: seconds and bytes, and both against the first depth")
    print(f"{'model':18} {'dtype':5} {'what':26} {'seconds':>8} {'KiB':>8} {'time':>6} {'size':>6}")
    for name in arguments.model:
        for dtype in arguments.dtype:
            rows = compile_costs(arguments, name, dtype)
            base = rows[1]
            for what, seconds, size in rows:
                ratios = f"{seconds / base[1]:6.2f} {size / base[2]:6.3f}" if what != name else ""
                print(f"{name:18} {dtype:5} {what:26} {seconds:8.2f} {size / 1024:8.0f} {ratios}", flush=True)
    print("\nfirst token of a new process: packing the weights, or with them packed in a cache file, against reading what is touched")
    print(f"{'model':18} {'dtype':5} {'packing s':>10} {'cached s':>9} {'to its end':>10} {'touched MB':>11} {'reading s':>10} {'ratio':>6}")
    memories = []
    for name in arguments.model:
        for dtype in arguments.dtype:
            packing, cached, whole, touched, reading, memory = start_costs(arguments, files, name, dtype)
            memories.append((name, dtype, memory))
            print(f"{name:18} {dtype:5} {packing:10.2f} {cached:9.4f} {whole:10.4f} {touched / 1e6:11.0f} {reading:10.4f} {cached / reading:6.2f}", flush=True)
    print("\npeak memory of the run that packs, MB")
    print(f"{'model':18} {'dtype':5} {'packed':>8} {'session':>8} {'peak':>8} {'over both':>10} {'predicted':>10} {'ratio':>6}")
    for name, dtype, memory in memories:
        packed, session, peak, predicted = (memory[key] / 1e6 for key in ("packed_weight_bytes", "total_bytes", "peak_resident_bytes", "predicted_peak_bytes"))
        print(f"{name:18} {dtype:5} {packed:8.0f} {session:8.1f} {peak:8.0f} {peak - packed - session:10.1f} {predicted:10.0f} {predicted / peak:6.3f}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"costs.sh: {' '.join(map(str, error.cmd))} ended with {error.returncode}")
    except FileNotFoundError as error:
        sys.exit(f"costs.sh: {error.filename} is missing; build first, or name a finished build with --build")
