"""hosts.py ROWS.csv - Weft's time by that of each peer, paired within rounds; for hosts.sh.

A row of the table has Weft's median, and for each peer its median, the geometric mean of the rounds' ratios, and in
brackets its 95 % interval by Student's t over their logarithms."""
import collections
import csv
import math
import statistics
import sys

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def main():
    times = collections.defaultdict(dict)  # by cell and peer: by round
    for row in csv.reader(open(sys.argv[1], encoding="ascii")):
        if len(row) == 9:
            peer, op, _, size, number, median = row[:6]
            times[op.split(".")[0], int(size), peer][int(number)] = float(median)
    peers = sorted({peer for _, _, peer in times} - {"weft"})
    print("| us | bytes | Weft |" + "".join(f" {peer} | ratio |" for peer in peers))
    print("|---|---|---|" + "---|---|" * len(peers))
    for op, size, peer in times:
        if peer != "weft":
            continue
        own = times[op, size, "weft"]
        line = f"| {op} | {size} | {statistics.median(own.values()):.0f} |"
        for peer in peers:
            theirs = times[op, size, peer]
            logs = [math.log(own[i] / theirs[i]) for i in own if i in theirs]
            if len(logs) not in T_95:
                sys.exit(f"{len(logs)} rounds of {peer} and Weft: expected 2 to {max(T_95)}")
            mean = statistics.mean(logs)
            half = T_95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
            line += f" {statistics.median(theirs.values()):.0f} | {math.exp(mean):.2f}"
            line += f" ({math.exp(mean - half):.2f} .. {math.exp(mean + half):.2f}) |"
        print(line)


main()
