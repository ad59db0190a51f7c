"""Compares the peak memory that smelt-run and `smeltc inspect` predict with what the system measures of a run.

peak_memory.py MODEL WEIGHTS VOCABULARY: weights from a file, from a seed, and mapped from a weights cache.
"""
import json
import os
import resource
import subprocess
import sys

model, weights = sys.argv[1:3]
vocabulary = int(sys.argv[3])
PROMPT, NEW = 400, 8
TOLERANCE = 0.05
FREE = 256 << 20  # what a run may take beside weights, KV cache and activations, also while it packs


def run(source, *options):
    """The memory object of a run's JSON, and the peak of its resident memory in bytes."""
    tokens = ",".join(str(i * 37 % vocabulary) for i in range(PROMPT))
    command = ["smelt-run", model, "--weights", source, "--tokens", tokens, "--max-new-tokens", str(NEW),
               "--threads", "2", "--json", *options]
    # A child of its own for each run, since the peak of children is that of the largest so far.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        memory = json.loads(done.stdout)["memory"]
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        os.write(writer, json.dumps([memory, peak]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{' '.join(command[:4])} failed")
    return json.loads(text)


inspected = json.loads(subprocess.run(
    ["smeltc", "inspect", model, "--json", "--positions", str(PROMPT + NEW), "--chunk", str(PROMPT),
     "--threads", "2"], stdout=subprocess.PIPE, check=True).stdout)["memory"]["peak"]

cache = weights + ".cache"
failures = 0
for name, source, options, exact in [("file", weights, [], True), ("seed", "splat:1", [], True),
                                     ("file, writing a cache", weights, [f"--weights-cache={cache}"], True),
                                     ("cache", weights, [f"--weights-cache={cache}"], False)]:
    memory, peak = run(source, *options)
    predicted = memory["predicted_peak_bytes"]
    needed = memory["packed_weight_bytes"] + memory["total_bytes"]
    problems = []
    if source != "splat:1" and predicted != inspected:
        problems.append(f"inspect predicts {inspected}")
    if abs(memory["peak_resident_bytes"] - peak) > max(peak * 0.01, 1 << 19):  # the system's counters are approximate
        problems.append(f"the run says {memory['peak_resident_bytes']}")
    if peak > predicted * (1 + TOLERANCE) or (exact and peak < predicted * (1 - TOLERANCE)):
        problems.append(f"more than {TOLERANCE:.0%} off")
    if peak > needed + FREE:
        problems.append(f"more than {needed} and {FREE}")
    print(f"{name}: predicted {predicted}, measured {peak}, {peak / predicted - 1:+.1%}"
          + "".join(f"; WRONG: {problem}" for problem in problems))
    failures += bool(problems)
sys.exit(1 if failures else 0)
