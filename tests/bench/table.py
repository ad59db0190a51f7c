"""The table of a results file."""
import shapes

# What projections of a type are multiplied with by the code of a variant, and the limit that measures it; f32 FMA otherwise.
INSTRUCTIONS = {("bf16", "x86-64-v4+bf16"): ("dot", "bf16_gflops"), ("i8", "x86-64-v4+vnni"): ("VNNI", "int16_gops")}


def roof(entry, row):
    """The least time the machine could take for a row, and which limit that is: the peak of the instruction the code uses, or the
    bandwidth of the memory the weights lie in. Seconds."""
    limits = entry["limits"][-1]
    name, limit = INSTRUCTIONS.get((entry["dtype"], entry["isa"]), ("FMA", "fma_gflops"))
    compute = row["flops"] / 1e9 / limits[limit]
    memory = row["bytes"] / 1e9 / limits["l3_read_gbytes" if entry["fits_l3"] else "read_gbytes"]
    if compute > memory:
        return compute, name
    return memory, "L3" if entry["fits_l3"] else "read"


def limits_line(limits):
    return (
        f"limits, {limits['threads']} thread{'s' if limits['threads'] > 1 else ''}: "
        f"f32 FMA {limits['fma_gflops']:.0f} GFLOP/s, VDPBF16PS {limits['bf16_gflops']:.0f} GFLOP/s, "
        f"VPDPWSSD {limits['int16_gops']:.0f} Gop/s, read {limits['read_gbytes']:.1f} GB/s, "
        f"L3 read {limits['l3_read_gbytes']:.1f} GB/s"
    )


def row_text(entry, row, peers):
    ours = row["engines"]["smeltc"]
    least, which = roof(entry, row)
    seconds = ours["seconds"]
    text = (
        f"{entry['model']:<18} {entry['dtype']:<5} {row['phase']:<13} {row['tokens'] / seconds:>10.1f} {100 * ours['spread']:>6.1f} "
        f"{row['flops'] / seconds / 1e9:>8.1f} {row['bytes'] / seconds / 1e9:>6.1f} {100 * least / seconds:>5.0f} {which:<4} "
        f"{row['experts']:>7.1f}"
    )
    for peer in peers:
        theirs = row["engines"].get(peer)
        if theirs:
            text += f" {row['tokens'] / theirs['seconds']:>14.1f} {theirs['seconds'] / seconds:>6.2f}"
        else:
            text += f" {'-':>14} {'-':>6}"
    samples = f"{ours['samples']}" + (f" of {ours['samples'] + ours['dropped']}" if ours["dropped"] else "")
    text += f"  {row['placement']}, {samples}"
    return text + (f", others used {100 * row['others']:.0f} % of a CPU" if row["others"] > 0.06 else "")


def looped_ratios(entries):
    """Lines that compare looped models with their matched baselines: wall time per token."""
    last = {(entry["model"], entry["dtype"]): entry for entry in entries}
    for (model, dtype), entry in last.items():
        other = last.get((shapes.BASELINES.get(model), dtype))
        if not other:
            continue
        theirs = {row["phase"]: row for row in other["rows"]}
        for row in entry["rows"]:
            if base := theirs.get(row["phase"]):
                per_token = lambda r: r["engines"]["smeltc"]["seconds"] / r["tokens"]
                note = "" if base["placement"] == row["placement"] else f"  ({row['placement']} against {base['placement']})"
                yield f"{model:<18} {dtype:<5} {row['phase']:<13} {per_token(row) / per_token(base):>6.2f}{note}"


def print_table(entries):
    peers = list(dict.fromkeys(peer for entry in entries for row in entry["rows"] for peer in row["engines"] if peer != "smeltc"))
    seen = []
    for entry in entries:
        for limits in entry["limits"]:
            if limits not in seen:
                seen.append(limits)
                print(limits_line(limits))
    heading = (
        f"{'model':<18} {'dtype':<5} {'phase':<13} {'tokens/s':>10} {'spread':>6} {'GFLOP/s':>8} {'GB/s':>6} {'%':>5} {'of':<4} {'experts':>7}"
    )
    for peer in peers:
        heading += f" {peer:>14} {'ours/':>6}"
    print(heading + "  placement, samples")
    for entry in entries:
        for row in entry["rows"]:
            print(row_text(entry, row, peers))
    for entry in entries:
        for peer, distance in entry["logits"].items():
            version = entry.get("versions", {}).get(peer, "")
            print(f"{entry['model']} {entry['dtype']}: {peer} {version}: logits within a relative L2 of {distance:.1e} of ours")
        for peer, why in entry["failed"].items():
            print(f"{entry['model']} {entry['dtype']}: no {peer}: {why}")
    ratios = list(looped_ratios(entries))
    if ratios:
        print("\nlooped model against its matched baseline, time per token")
        print("\n".join(ratios))
