"""report.py - the table and the figures of tools/compare.

usage: report.py FOLDER PLOT

Reads rows.csv (peer,op,ranks,bytes,round,median,min,max,unit) and machine.txt in the folder; writes table.md, table.csv
and, with the program PLOT, a picture for each operation, transport and number of ranks.  A cell of the table is the
median of the rounds' medians, with the least and greatest sample of all rounds.  A ratio compares within rounds: to the
peer whose cell is best over all rounds, in each round, and the median of those; below 1 Weft is better.  What is
written replaces what was there only when all of it is complete.  Ends with code 1 and a sentence if it cannot."""

import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict, namedtuple

Cell = namedtuple("Cell", "median least most rounds unit")  # rounds: round -> median

# Which labels stand beside each other; Gloo and torch have TCP only, but are a choice on one host too.
TRANSPORTS = {
    "shm": ("shared memory", ["weft", "weft-mem"], ["openmpi", "mpich", "mpich-async", "gloo", "torch"],
            ["limits", "limits-vmread"]),
    "tcp": ("TCP over loopback", ["weft-tcp"], ["openmpi-tcp", "openmpi-tcp-async", "mpich-tcp", "gloo", "torch"],
            ["limits-tcp"]),
    "net": ("TCP between two networks at 1 Gbit/s", ["weft-net"], ["openmpi-net", "mpich-net", "gloo-net", "torch-net"],
            ["limits-net"]),
}
STYLES = {  # colour and dashes
    "weft": ("#1f77b4", ""), "weft-mem": ("#1f77b4", "7 3"), "openmpi": ("#ff7f0e", ""), "mpich": ("#2ca02c", ""),
    "gloo": ("#9467bd", ""), "torch": ("#8c564b", ""), "limits": ("#222222", "2 3"), "limits-vmread": ("#888888", "2 3"),
}
FIGURES = ["ping_pong", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"]
BETTER_UP = {"M/s", "GB/s", "%"}


def read(path):
    rounds = defaultdict(dict)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            key = (row["peer"], row["op"], int(row["ranks"]), int(row["bytes"]), row["unit"])
            rounds[key][int(row["round"])] = tuple(float(row[x]) for x in ("median", "min", "max"))
    cells = {}
    for (peer, op, ranks, size, unit), of in rounds.items():
        cells[peer, op, ranks, size] = Cell(statistics.median(x[0] for x in of.values()), min(x[1] for x in of.values()),
                                            max(x[2] for x in of.values()), {r: x[0] for r, x in of.items()}, unit)
    return cells


def has_ratio(op, unit):
    return unit in ("us", "s", "M/s") and not op.startswith("overlap")


def best_of(cells, peers, key):
    there = [p for p in peers if (p,) + key in cells]
    if not there:
        return None
    up = cells[(there[0],) + key].unit in BETTER_UP
    return (max if up else min)(there, key=lambda p: cells[(p,) + key].median)


def ratio(cell, best):
    both = cell.rounds.keys() & best.rounds.keys()
    if not both:
        return None
    values = [cell.rounds[r] / best.rounds[r] for r in both if cell.rounds[r] > 0 and best.rounds[r] > 0]
    if not values:
        return None
    return statistics.median(1 / v if cell.unit in BETTER_UP else v for v in values)


def size_text(size):
    if not size:
        return "-"
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def number(x):
    return "%.3g" % x if abs(x) < 1000 else "%.0f" % x


def cell_text(cell):
    if cell is None:
        return "-"
    if cell.least == cell.most:
        return number(cell.median)
    return "%s (%s..%s)" % (number(cell.median), number(cell.least), number(cell.most))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n\n"


def keys_of(cells, labels, ranks):
    """(op, ranks, size) of all these labels, in the order of measuring."""
    found = {k[1:]: None for k in cells if k[0] in labels and k[2] == ranks}
    place = {}
    for op, _, _ in found:
        place.setdefault(op.split(".")[0], len(place))
    return sorted(found, key=lambda k: (place[k[0].split(".")[0]], k[0] if k[0].startswith("overlap") else "", k[2], k[0]))


def compared(cells):
    """What every table is made of: transport, key, cells by label, best peer, ratios by Weft's labels."""
    for transport, (_, own, peers, limits) in TRANSPORTS.items():
        for ranks in sorted({k[2] for k in cells}):
            for key in keys_of(cells, own + peers + limits, ranks):
                there = {p: cells[(p,) + key] for p in own + peers if (p,) + key in cells}
                waits = (key[0].replace(".request.", ".blocking."),) + key[1:]  # what is done by hand is no request
                there.update({p: cells[(p,) + waits] for p in limits if (p,) + waits in cells})
                unit = next(iter(there.values())).unit
                best = best_of(cells, peers, key) if has_ratio(key[0], unit) else None
                ratios = {w: ratio(there[w], there[best]) for w in own if best and w in there}
                yield transport, key, there, best, ratios


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow("transport,ranks,op,bytes,peer,median,min,max,unit,best_peer,ratio".split(","))
        for transport, (op, ranks, size), there, best, ratios in rows:
            for peer, c in there.items():
                r = ratios.get(peer)
                out.writerow([transport, ranks, op, size, peer, "%.5g" % c.median, "%.5g" % c.least, "%.5g" % c.most,
                              c.unit, best or "", "" if r is None else "%.3f" % r])


def summary(rows):
    """For each operation, of all its sizes and ways."""
    of = defaultdict(list)
    for transport, (op, ranks, size), _, _, ratios in rows:
        for label, r in ratios.items():
            if r is not None:
                of[op.split(".")[0], ranks, label].append((r, "%s %s" % (op, size_text(size))))
    lines = [[op, str(ranks), label, str(len(v)), number(statistics.median(x[0] for x in v)),
              "%d" % sum(x[0] <= 1 for x in v), "%s (%s)" % (number(max(v)[0]), max(v)[1])]
             for (op, ranks, label), v in of.items()]
    if not lines:
        return "No peer was measured beside Weft: there are no ratios.\n\n"
    return table(["operation", "ranks", "Weft as", "cells", "median ratio", "at most 1.0", "greatest ratio"], lines)


def write_markdown(path, machine, rows):
    with open(path, "w") as file:
        file.write("# Weft beside its peers\n\n%s\n" % "".join("- %s\n" % line for line in machine))
        file.write("A cell is the median of the rounds' medians (least..greatest sample). A ratio is Weft's time by that "
                   "of the peer which is best over all rounds, taken in each round, and the median of those; below 1 Weft "
                   "is faster. *warm*: the input stays as it is; *rewritten*: it is written anew before each operation. "
                   "overlap: *true* is 100 (2 - t_total / t_comm), *stretch* what the same work alone takes beside an "
                   "idle library, *cpu_share* what waiting costs.\n\n## Ratios\n\n")
        file.write(summary(rows))
        for transport, (name, own, peers, limits) in TRANSPORTS.items():
            for ranks in sorted({k[1] for t, k, _, _, _ in rows if t == transport}):
                here = [r for r in rows if r[0] == transport and r[1][1] == ranks]
                labels = [p for p in own + peers + limits if any(p in r[2] for r in here)]
                lines = []
                for _, (op, _, size), there, best, ratios in here:
                    texts = [("**%s**" if p == best else "%s") % cell_text(there.get(p)) for p in labels]
                    ratio_texts = [number(x) for x in ratios.values() if x is not None]
                    unit = next(iter(there.values())).unit
                    lines.append([op, size_text(size), unit] + texts + [" / ".join(ratio_texts) or "-"])
                head = ["operation", "size", "unit"] + labels + ["ratio of " + " / ".join(own)]
                file.write("## %s, %d ranks\n\n" % (name[0].upper() + name[1:], ranks) + table(head, lines))


def points(cells, label, op, ranks):
    """As a request; of who has none, as a call that waits."""
    for way in ("request", "blocking"):
        found = sorted((k[3], c) for k, c in cells.items()
                       if k[0] == label and k[2] == ranks and k[1] == "%s.%s.warm" % (op, way))
        if found:
            return found
    return []


def draw(folder, plot, cells, machine):
    for transport, (name, own, peers, limits) in TRANSPORTS.items():
        for ranks in sorted({k[2] for k in cells}):
            for op in FIGURES:
                rows = []
                for label in limits + peers + own:
                    plain = label.replace("-tcp", "")
                    colour, dash = STYLES.get(label, STYLES.get(plain, ("#e377c2", "")))
                    shown = {"limits": "limit: " + name, "limits-tcp": "limit: raw TCP",
                             "limits-vmread": "limit: process_vm_readv"}.get(label, label)
                    rows += ["%s,%s,%s,%d,%g,%g,%g" % (shown, colour, dash, size, c.median, c.least, c.most)
                             for size, c in points(cells, label, op, ranks)]
                if not rows:
                    continue
                title = "%s, %d ranks, %s; %s" % (op, ranks, name, machine[0])
                with open(os.path.join(folder, "%s-%d-%s.svg" % (op, ranks, transport)), "w") as file:
                    subprocess.run([plot, title], input="\n".join(rows) + "\n", stdout=file, text=True, check=True,
                                   timeout=60)


def main():
    if len(sys.argv) != 3:
        sys.exit("report.py takes FOLDER PLOT")
    folder, plot = sys.argv[1:]
    with open(os.path.join(folder, "machine.txt")) as file:
        machine = file.read().splitlines()
    cells = read(os.path.join(folder, "rows.csv"))
    rows = list(compared(cells))
    machine.append("Rounds: %d" % max(len(c.rounds) for c in cells.values()))
    made = tempfile.mkdtemp(dir=folder)
    try:
        write_csv(os.path.join(made, "table.csv"), rows)
        write_markdown(os.path.join(made, "table.md"), machine, rows)
        draw(made, plot, cells, machine)
        for name in os.listdir(made):
            os.replace(os.path.join(made, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(made)


try:
    main()
except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
    sys.exit("report.py: %s" % error)
