"""Measures compiled models, and peers beside them, against the machine's own limits. README.md says how to use it."""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import shapes
from engines import Engine, EngineError
from files import Files
from peers import PEERS, start_peer
from sampling import CONTEXT, Phase, relative_l2, request_of, summarize, take_samples
from table import print_table


def parse_arguments():
    numbers = lambda text: [int(part) for part in text.split(",") if part]
    words = lambda text: [part for part in text.split(",") if part]
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description=__doc__)
    parser.add_argument("--model", type=words, help=f"of {', '.join(shapes.SPECS)} (default: tiny, smelt-100m-s85 and its baseline)")
    parser.add_argument("--dtype", type=words, default=["f32", "bf16"], help="weights: f32, bf16, i8 (default f32,bf16)")
    parser.add_argument("--prefill", type=numbers, default=[128, 512], metavar="N,N", help="prompt lengths (default 128,512)")
    parser.add_argument("--batch", type=numbers, default=[1, 4], metavar="N,N", help="sequences that decode together (default 1,4)")
    parser.add_argument("--all", action="store_true", help="every model; prompts of 32, 128, 512, 2048; batches of 1, 4, 16, 64")
    parser.add_argument("--peer", type=words, default=[], help=f"measured in turns with ours: {', '.join(PEERS)}")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every engine (default: all CPUs)")
    parser.add_argument("--isa", default="", help="code variant of ours (default: the best)")
    parser.add_argument("--seconds", type=float, default=2, help="of sampling, each row, at least (default 2)")
    parser.add_argument("--folder", type=pathlib.Path, help="for compiled models, weights and the peers' environment (default: BUILD/bench)")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("SMELT_BUILD", shapes.ROOT / "build")), help="a finished build (default: build, or SMELT_BUILD)")
    parser.add_argument("--prepare", action="store_true", help="only write the files the run needs, and install the peers")
    parser.add_argument("--delete", action="store_true", help="delete a model's files once it is measured")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE", help="append every measured model to this JSON file")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="measure nothing; print the table of a results file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments = parser.parse_args()
    if arguments.all:
        arguments.prefill, arguments.batch = [32, 128, 512, 2048], [1, 4, 16, 64]
        arguments.model = arguments.model or list(shapes.SPECS)
    arguments.model = arguments.model or ["tiny", "smelt-100m-s85", "baseline-100m-s85"]
    for given, known in ((arguments.model, shapes.SPECS), (arguments.dtype, shapes.DTYPES), (arguments.peer, PEERS)):
        for word in given:
            if word not in known:
                parser.error(f"'{word}' is none of {', '.join(known)}")
    arguments.folder = arguments.folder or arguments.build / "bench"
    return arguments


def available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def l3_bytes():
    """Of one L3 cache; 0 when the system does not say."""
    try:
        text = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.rstrip("K")) * 1024
    except (OSError, ValueError):
        return 0


def measure_limits(arguments):
    counts = sorted({1, arguments.threads})
    output = subprocess.run(
        [arguments.build / "bin/smelt-bench", "limits", "--threads", ",".join(map(str, counts))],
        check=True, capture_output=True, text=True,
    ).stdout
    return [json.loads(line) for line in output.splitlines()]


def decode_steps(engine, phase, vocab):
    """Steps that make a sample of about 0.3 s, so that a probe before and after says where it ran."""
    trial = 4
    engine.ask(request_of(phase, vocab, trial))
    took = engine.ask(request_of(phase, vocab, trial))["seconds"] / trial
    return max(4, min(256, round(0.3 / took)))


def check_logits(ours, peer, vocab):
    """The largest relative L2 between the two engines' logits after three prompts."""
    worst = 0
    for seed, length in enumerate((1, 7, 24)):
        request = {"do": "logits", "tokens": request_of(Phase("prefill", length), vocab, 0, seed)["tokens"]}
        worst = max(worst, relative_l2(ours.ask(request)["logits"], peer.ask(request)["logits"]))
    return worst


def measure_phase(arguments, shape, dtype, engines, placement, ready, phase):
    ours, vocab = engines[0], ready["vocab_size"]
    steps = decode_steps(ours, phase, vocab) if phase.kind == "decode" else 1
    request = request_of(phase, vocab, steps)
    counted = ours.ask({**request, "count": True})
    samples, others = take_samples(engines, placement, request, arguments.seconds)
    layers = len(shape.executed)
    prefill = phase.kind == "prefill"
    work = shapes.work(
        shape, dtype, ready["kv_bytes"],
        sequences=1 if prefill else phase.size, first=0 if prefill else CONTEXT,
        tokens=phase.size if prefill else 1, steps=steps,
        distinct=counted["distinct"], passes=counted["routed_layers"] / layers,
    )
    row = {
        "phase": phase.name,
        "tokens": phase.size * steps,
        "flops": work.flops,
        "bytes": work.bytes,
        "experts": counted["distinct"] / counted["routed_layers"],
        "others": others,
        "engines": {},
    }
    summaries = summarize(samples)
    if summaries is None:
        print(f"{shape.spec} {phase.name}: no placement was met by every engine; the row is left out", file=sys.stderr)
        return None
    for engine in engines:
        summary = summaries[engine.name]
        row["placement"] = summary.placement
        row["engines"][engine.name] = {
            "seconds": summary.seconds, "spread": summary.spread, "samples": summary.kept, "dropped": summary.dropped,
        }
    return row


def measure_model(arguments, files, name, dtype, limits):
    """One entry of the results: every phase of one model with one weights dtype."""
    shape = shapes.read_shape(shapes.SPECS[name])
    artifact, weights = files.model(name, dtype)
    entry = {"model": name, "dtype": dtype, "time": time.strftime("%Y-%m-%d %H:%M:%S"), "limits": limits, "logits": {}, "failed": {}, "rows": []}
    entry["fits_l3"] = shape.weight_bytes(dtype) <= l3_bytes() * 3 // 4
    with contextlib.ExitStack() as stack:
        bench = arguments.build / "bin/smelt-bench"
        log = lambda what: files.folder / f"{name}-{dtype}-{what}.log"
        placement = stack.enter_context(Engine("placement", [bench, "placement"], files.folder / "placement.log"))
        command = [bench, "model", artifact, weights, "--threads", arguments.threads]
        ours = stack.enter_context(Engine("smeltc", command + (["--isa", arguments.isa] if arguments.isa else []), log("smeltc")))
        ready = ours.read()
        entry["isa"] = ready["isa"]
        engines = [ours]
        for peer_name in arguments.peer:
            try:
                peer = stack.enter_context(start_peer(peer_name, files, name, dtype, shape, arguments.threads, log(peer_name)))
                entry.setdefault("versions", {})[peer_name] = peer.read().get("version", "")
                entry["logits"][peer_name] = check_logits(ours, peer, ready["vocab_size"])
                print(f"{name} {dtype}: logits of {peer_name} differ by a relative L2 of {entry['logits'][peer_name]:.1e}", file=sys.stderr)
                engines.append(peer)
            except (EngineError, shapes.Unsupported) as error:
                entry["failed"][peer_name] = str(error)
                print(f"{name} {dtype}: {peer_name} is left out: {error}", file=sys.stderr)
        for phase in [Phase("prefill", n) for n in arguments.prefill] + [Phase("decode", n) for n in arguments.batch]:
            print(f"{name} {dtype}: {phase.name}", file=sys.stderr)
            if row := measure_phase(arguments, shape, dtype, engines, placement, ready, phase):
                entry["rows"].append(row)
    return entry


def append_results(path, entry):
    """A results file is a JSON list; it is replaced whole, so that a run that is stopped leaves a readable one."""
    entries = json.loads(path.read_text()) if path.exists() else []
    draft = path.with_suffix(path.suffix + ".part")
    draft.write_text(json.dumps(entries + [entry], indent=1))
    draft.replace(path)


def reason_to_skip(arguments, shape, dtype):
    need = shape.weight_bytes(dtype) + (1 << 30)
    need += sum(PEERS[peer].weight_bytes(shape, dtype) for peer in arguments.peer)
    room = available_bytes()
    return f"needs {need / 1e9:.1f} GB of memory, {room / 1e9:.1f} are available" if need > room else None


def main():
    arguments = parse_arguments()
    if arguments.table:
        entries = json.loads(arguments.table.read_text())
        print(json.dumps(entries, indent=1)) if arguments.json else print_table(entries)
        return 0
    files = Files(arguments)
    files.install(arguments.peer)
    limits = None if arguments.prepare else measure_limits(arguments)
    entries, skipped = [], []
    for name in arguments.model:
        shape = shapes.read_shape(shapes.SPECS[name])
        for dtype in arguments.dtype:
            if reason := reason_to_skip(arguments, shape, dtype):
                skipped.append(f"{name} {dtype}")
                print(f"skipped: {name} {dtype}: {reason}", file=sys.stderr)
                continue
            files.prepare(name, dtype, shape, arguments.peer)
            if not arguments.prepare:
                entries.append(measure_model(arguments, files, name, dtype, limits))
                if arguments.results:
                    append_results(arguments.results, entries[-1])
            if arguments.delete:
                files.delete(name, dtype)
    if entries:
        print(json.dumps(entries, indent=1)) if arguments.json else print_table(entries)
    print(f"{len(skipped)} skipped{': ' if skipped else ''}{', '.join(skipped)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (EngineError, shapes.Unsupported, subprocess.CalledProcessError) as error:
        sys.exit(f"bench: {error}")
