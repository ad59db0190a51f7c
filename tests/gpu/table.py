#!/usr/bin/env python3
"""Prints the results of run.sh as one table: table.py RESULTS.json [what else was not measured]..."""
import json
import sys


def rows(results):
    peers = {(p["model"], p["kind"], p["size"]): p for p in results.get("peers", [])}
    for kind, size in (("decode", "batch"), ("prefill", "prompt")):
        for result in results.get(kind) or []:
            peer = peers.get((result["model"], kind, result[size]))
            yield [
                result["model"],
                f"{kind} {size} {result[size]}",
                result["gemm"],
                f"{result['seconds'] * 1e3:.3f}",
                f"{result['tokens_per_second']:.1f}",
                f"{result['share_of_read_rate'] * 100:.1f}" if kind == "decode" else "",
                f"{peer['seconds'] * 1e3:.3f}" if peer else "",
                peer["how"] if peer else "",
                f"{peer['seconds'] / result['seconds']:.2f}" if peer else "",
            ]


def limits(results):
    reads = results.get("read_rate")
    if reads:
        yield f"reads at most {reads['bytes_per_second'] * 1e-9:.0f} GB/s, by {reads['how']}"
    for kind in ("reads", "bulk_reads", "graph_nodes", "grid_barriers", "products", "gemv"):
        for limit in results.get(kind) or []:
            numbers = [f"{limit['seconds'] * 1e6:.2f} us"] if "seconds" in limit else []
            numbers += [f"{limit['bytes_per_second'] * 1e-9:.0f} GB/s"] if "bytes_per_second" in limit else []
            yield f"{limit['what']}: {', '.join(numbers)}"
    for skipped in results["skipped"]:
        yield f"skipped: {skipped['what']}: {skipped['why']}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    gpu = results["gpu"]
    print(f"{gpu['name']}, sm_{gpu['compute_capability']}, driver CUDA {gpu['driver'] // 1000}.{gpu['driver'] % 1000 // 10}")
    for line in limits(results):
        print("  " + line)
    numbers = results.get("numbers") or []
    wrong = [n for n in numbers if n["problem"]]
    print(f"numbers: {len(numbers) - len(wrong)} of {len(numbers)} cases right")
    for case in wrong:
        print(f"  WRONG {case['case']} in steps of {case['chunk']} by {case['gemm']}: {case['problem']}")
    problems = [f"{p['what']}: {p['problem']}" for p in results.get("problems", [])]
    for problem in problems + results.get("peer_problems", []) + sys.argv[2:]:
        print(f"  not measured: {problem}")
    table = [["model", "what", "products by", "ms", "tokens/s", "% of reads", "peer ms", "peer", "times faster"]] + list(rows(results))
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.rjust(width) if 2 < i != 7 else cell.ljust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())


if __name__ == "__main__":
    main()
