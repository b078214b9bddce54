"""How long after kill -9 of a rank the others have an exception that names it, and train on without it.

    python death.py [ROUNDS [RANKS]]

Each round is a job of RANKS (4) ranks that average gradients, step after step, and one of them, another each time, kills
itself at a random moment of a step.  Every other one says when it was told, by the clock that all processes have; then
they shrink the group and go on from the last step, and must end with equal weights.  Prints the median, the quartiles
and the longest over all ranks of all rounds, and fails if that is more than 50 ms.  100 rounds take some 2 minutes.
"""

import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy

import weft

LIMIT_MS = 50.0
STEPS, KILLED_AT = 40, 20
ROUND_S = 60
GRADIENT = 16384  # of float32: 64 KiB


def train(seed):
    """One rank."""
    chosen = random.Random(seed)
    with weft.init(timeout=ROUND_S) as job:
        g, weights, step = job.world, numpy.zeros(GRADIENT, numpy.float32), 0
        dies, after_s = chosen.randrange(g.size), chosen.uniform(0, 0.005)
        while step < STEPS:
            if step == KILLED_AT and g.size == job.size and g.rank == dies:
                threading.Timer(after_s, kill_oneself).start()
            try:
                weights = weights + g.all_reduce(numpy.full(GRADIENT, 1.0 + step, numpy.float32), op="avg").result()
                step += 1
                time.sleep(0.001)  # stands for a computation
            except (weft.PeerError, weft.BrokenError) as error:
                told = time.monotonic()
                assert error.rank == dies and g.dead() == [dies], (str(error), dies, g.dead())
                print((told - float(open(os.environ["KILLED"], encoding="utf-8").read())) * 1e3, flush=True)
                g = g.shrink()
        everybody = g.all_gather(weights, numpy.zeros((g.size, GRADIENT), numpy.float32)).result()
        assert (everybody == sum(range(1, STEPS + 1))).all(), everybody


def kill_oneself():
    with open(os.environ["KILLED"], "w", encoding="utf-8") as file:  # the job's store may be this rank's
        file.write(repr(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)


def one_round(seed, ranks):
    """The milliseconds of every rank that lives."""
    with tempfile.TemporaryDirectory() as folder:
        return one_job(seed, ranks, os.path.join(folder, "killed"))


def one_job(seed, ranks, killed):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    place["KILLED"] = killed
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", str(seed)],
            env={**os.environ, **place, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=ROUND_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = sorted(process.returncode for process in processes)
    assert codes == [-9] + [0] * (ranks - 1), (codes, said)
    found = [float(word) for out, _ in said for word in out.split()]
    assert len(found) == ranks - 1, said
    return found


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    found = [took for seed in range(rounds) for took in one_round(seed, ranks)]
    low, middle, high = statistics.quantiles(found, n=4)
    late = sum(took > LIMIT_MS for took in found)
    print(f"{rounds} kills, {len(found)} ranks told: {middle:.1f} ms ({low:.1f} to {high:.1f}), at most {max(found):.1f}")
    print(f"{late} of them after more than {LIMIT_MS:.0f} ms")
    return 1 if late else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        train(int(sys.argv[2]))
    else:
        sys.exit(main())
