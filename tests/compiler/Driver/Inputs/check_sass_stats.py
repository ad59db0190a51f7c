#!/usr/bin/env python3
"""Checks a table of `smeltc compile --emit sass-stats`, read from standard input.

    check_sass_stats.py [--assembled] [--layer-bytes N --layer-flops N]

Every kernel of both kinds of steps has a line for each of its functions, with sane numbers; --assembled: ptxas was
found, so registers and spills are numbers too, and no function spills. --layer-*: the sum over the kernels of a sparse
layer in a short step, of what one token moves and computes.
"""
import argparse
import re
import sys

MOST_SHARED = {"sm_80": 163 << 10, "sm_86": 99 << 10, "sm_89": 99 << 10, "sm_90a": 227 << 10, "sm_100a": 227 << 10}
LAYER = ["norm_qkv_rope", "attention", "linear_residual", "norm_route", "experts_gate_up_direct", "experts_down_residual"]
TAIL = ["embed", "norm_linear", "argmax", "sample"]
LONG = LAYER[1:3] + TAIL + ["rope_append", "route", "moe_plan", "experts_gate_up", "experts_down", "combine_residual"]
PRODUCTS = ["norm_qkv_rope", "linear_residual", "norm_route", "experts_gate_up", "experts_down", "norm_linear"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--assembled", action="store_true")
    parser.add_argument("--layer-bytes", type=int)
    parser.add_argument("--layer-flops", type=int)
    arguments = parser.parse_args()
    lines = sys.stdin.read().splitlines()
    columns = [(m.group(), m.end()) for m in re.finditer(r"\S+(?: \S+)*", lines[0])]
    names = [name for name, _ in columns]
    assert names == ["target", "function", "steps", "registers", "spilled bytes", "shared bytes", "threads", "bytes",
                     "FLOPs"], names
    problems, seen, layer = [], {"short steps": set(), "any step": set()}, [0, 0]
    for line in lines[1:]:
        cells = re.split(r" {2,}", line.strip())
        target, function, steps, registers, spilled, shared, threads = cells[:7]
        work = [int(cell.replace(",", "")) for cell in cells[7:]]

        def check(fine, what):
            if not fine:
                problems.append(f"{function}: {what}: {line}")

        name = re.match(r"[a-z_]+?(?=_[a-z]?\d)", function).group()
        first = re.search(r"_0(_short)?$", function) is not None
        seen[steps].add(name)
        check(function.endswith("_short") == (steps == "short steps"), "the name does not tell the steps")
        if arguments.assembled:
            check(10 <= int(registers) <= 255, "registers")
            check(int(spilled) == 0, "spills")
        else:
            check(registers == spilled == "-", "numbers of no assembler")
        check(0 <= int(shared) <= MOST_SHARED[target.split(":")[1]], "shared memory")
        check(int(threads) % 32 == 0 and 32 <= int(threads) <= 1024, "threads")
        check(len(work) == (2 if first else 0), "bytes and FLOPs stand at the first stage, and there alone")
        if first:
            check(work[0] > 0, "no bytes")
            check((work[1] > 0) == any(name.startswith(p) for p in PRODUCTS), "FLOPs of a product, and of no other")
            # Two operations for two bytes of a weight, and the activations that come with them.
            check(work[1] <= work[0], "more FLOPs than bytes of weights")
            if steps == "short steps" and name in LAYER:
                layer = [layer[0] + work[0], layer[1] + work[1]]
    for steps, wanted in (("short steps", LAYER + TAIL), ("any step", LONG)):
        missing = [name for name in wanted if name not in seen[steps]]
        if missing:
            problems.append(f"no function of {', '.join(missing)} for {steps}: {sorted(seen[steps])}")
    for what, wanted, got in zip(("bytes", "FLOPs"), (arguments.layer_bytes, arguments.layer_flops), layer):
        if wanted is not None and wanted != got:
            problems.append(f"{what} of a layer: {got}, expected {wanted}")
    print("\n".join(problems) if problems else "fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
