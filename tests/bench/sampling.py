"""Samples of several engines at the same work, in turns, and what they say."""
import collections
import dataclasses
import random
import statistics
import time

from engines import busy_seconds


@dataclasses.dataclass(frozen=True)
class Phase:
    """One row of the table: a prompt of `tokens` tokens, or decoding with `batch` sequences."""

    kind: str  # prefill or decode
    size: int

    @property
    def name(self):
        return f"{self.kind} {self.size}" if self.kind == "prefill" else f"decode x{self.size}"


CONTEXT = 16  # cached positions of each sequence when decoding starts


def request_of(phase, vocab, steps, seed=1):
    """What every engine is asked: the same tokens, so that all route alike."""
    draw = random.Random(seed)
    tokens = lambda count: [draw.randrange(vocab) for _ in range(count)]
    if phase.kind == "prefill":
        return {"do": "prefill", "tokens": tokens(phase.size)}
    return {
        "do": "decode",
        "context": [tokens(CONTEXT) for _ in range(phase.size)],
        "next": [tokens(phase.size) for _ in range(steps)],
    }


@dataclasses.dataclass(frozen=True)
class Sample:
    seconds: float
    before: str  # placement
    after: str


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of the samples of one engine in the placement that all engines were seen in most."""

    seconds: float  # median
    spread: float  # (75th - 25th percentile) / median
    kept: int
    dropped: int
    placement: str


def summarize(samples):
    """samples: by engine, one list each. Samples during which the placement changed are dropped, and so are all but those of
    one placement: the one in which every engine has the most. Returns by engine a Summary, or None when a placement common to all
    was never met."""
    counts = {
        engine: collections.Counter(s.before for s in own if s.before == s.after) for engine, own in samples.items()
    }
    placements = set().union(*counts.values())
    best = max(sorted(placements), key=lambda p: min(count[p] for count in counts.values()), default=None)
    if best is None or min(count[best] for count in counts.values()) == 0:
        return None
    result = {}
    for engine, own in samples.items():
        kept = sorted(s.seconds for s in own if s.before == s.after == best)
        median = statistics.median(kept)
        quarter = lambda q: kept[round(q * (len(kept) - 1))]
        result[engine] = Summary(
            median, (quarter(0.75) - quarter(0.25)) / median, len(kept), len(own) - len(kept), best
        )
    return result


def take_samples(engines, placement, request, seconds, fewest=3, most=15):
    """Rounds of one sample of each engine, each between two placement probes, until every engine has `fewest` comparable samples
    and `seconds` are over, or `most` rounds are done. Returns (samples by engine name, share of one CPU used by others)."""
    samples = {engine.name: [] for engine in engines}
    for engine in engines:
        engine.ask(request)  # brings weights and caches where they will be
    own = lambda: sum(engine.cpu_seconds() for engine in [*engines, placement]) + time.process_time()
    start, busy, mine = time.monotonic(), busy_seconds(), own()
    probe = lambda: placement.ask({})["placement"]
    for _ in range(most):
        for engine in engines:
            before = probe()
            took = engine.ask(request)["seconds"]
            samples[engine.name].append(Sample(took, before, probe()))
        summary = summarize(samples)
        enough = summary is not None and min(s.kept for s in summary.values()) >= fewest
        if enough and time.monotonic() - start >= seconds:
            break
    passed = time.monotonic() - start
    return samples, max(0.0, busy_seconds() - busy - (own() - mine)) / passed


def relative_l2(ours, theirs):
    """|theirs - ours| / |ours|"""
    difference = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
    return (difference / sum(a * a for a in ours)) ** 0.5
