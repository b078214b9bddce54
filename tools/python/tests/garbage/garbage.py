"""Requests, most of them thrown away, while garbage is collected at random moments: no leak, no crash.

    weft-run -n 2 python3-dbg garbage.py [REQUESTS] [SEED]

Under a debug build of Python and a libweft with the address sanitizer each use of memory that is gone ends the program.
What leaks is told by what is there after each of ten rounds: requests that the binding still has, objects that Python
has, and memory: what the sanitizer counts in all of the process, or without it Python's own blocks.  (References are not
counted: packages that were not built for debugging do not count theirs.)
"""

import asyncio
import ctypes
import gc
import random
import sys
import threading
import time

import numpy as np

import weft

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ROUNDS = 10
AT_ONCE = 100  # then all ranks come to one place
SETTLE_S = 30

# What a round may add: what Python and numpy cache.  A leak of one for each request would be 10,000, and 160,000 bytes.
MOST_OBJECTS, MOST_BLOCKS, MOST_BYTES = 200, 1000, 50_000


class Cycle:
    """Garbage that only a collection finds, with a request in it."""

    def __init__(self, request):
        self.own, self.request = self, request


class Job:
    def __init__(self, job):
        self.job, self.group = job, job.world
        self.number = random.Random(SEED)  # the same on all ranks, so that they submit the same
        self.own = random.Random(SEED + 1 + job.rank)
        self.told = 0
        self.submitted = 0

    def some(self):
        """A number of requests of every kind, each of which is kept, waited for, called back or thrown away."""
        group, peer, kept = self.group, 1 - self.group.rank, []
        for _ in range(AT_ONCE):
            n, kind = self.number.choice((1, 16, 1000, 40_000)), self.number.randrange(5)
            x = np.ones(n, np.float32)
            if kind == 0:
                requests = [group.all_reduce(x)]
            elif kind == 1:
                requests = [group.all_gather(x, np.zeros((2, n), np.float32))]
            elif kind == 2:
                requests = [group.isend(x, peer, 1, copy=True), group.irecv(np.zeros(n, np.float32), peer, 1)]
            elif kind == 3:
                with group.batch() as batch:
                    requests = [group.all_reduce(x, batch=batch), group.broadcast(np.ones(n), 0, batch=batch)]
            else:
                requests = [group.barrier()]
            self.submitted += len(requests)
            for request in requests:
                self.treat(request, kept)
            if self.own.random() < 0.02:
                gc.collect(self.own.randrange(3))
        return kept

    def treat(self, request, kept):
        what = self.own.randrange(7)
        if what == 0:
            request.wait()
        elif what == 1:
            kept.append(request)
        elif what == 2:
            Cycle(request)
        elif what == 3:
            request.add_done_callback(self.count)
        elif what == 4:
            kept.append(request.future())
        # else it is thrown away at once

    def count(self, _):
        self.told += 1

    async def awaited(self):
        found = await asyncio.gather(*(self.one() for _ in range(20)))
        assert all(value[0] == 2 for value in found)

    async def one(self):
        return await self.group.all_reduce(np.ones(1))

    def round(self, requests):
        until = self.submitted + requests
        while self.submitted < until:
            kept = self.some()
            self.group.barrier().wait()
            for each in kept:
                each.result()
            if self.number.random() < 0.1:
                asyncio.run(self.awaited())
                self.submitted += 20

    def left(self):
        """What is there once all has settled: requests of the binding, objects, references."""
        self.group.barrier().wait()
        until = time.monotonic() + SETTLE_S
        while (self.job._forsaken or self.job._watcher.busy) and time.monotonic() < until:
            self.job._bury()
            time.sleep(0.01)
        for _ in range(3):
            gc.collect()
        self.job._bury()
        return len(self.job._forsaken), len(gc.get_objects()), memory()


def memory():
    """Bytes by the sanitizer, if it is there, else blocks by Python."""
    return sanitizer() if sanitizer else sys.getallocatedblocks()


sanitizer = getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None)
if sanitizer:
    sanitizer.restype = ctypes.c_size_t


def collect_always(ended, seed):
    number = random.Random(seed)
    while not ended.wait(number.random() * 0.3):
        gc.collect(number.randrange(3))


def main():
    gc.set_threshold(200, 5, 5)
    with weft.init() as job:
        ended = threading.Event()
        collector = threading.Thread(target=collect_always, args=(ended, SEED + job.rank))
        collector.start()
        began, work, before, grown = time.monotonic(), Job(job), None, []
        try:
            for _ in range(ROUNDS):
                work.round(REQUESTS // ROUNDS)
                left = work.left()
                assert left[0] == 0, f"{left[0]} requests that have settled are not given back"
                if before is not None:
                    grown.append((left[1] - before[1], left[2] - before[2]))
                before = left
        finally:
            ended.set()
            collector.join()
        objects, more = (sorted(column)[len(grown) // 2] for column in zip(*grown))
        most, of_what = (MOST_BYTES, "bytes, by the sanitizer") if sanitizer else (MOST_BLOCKS, "blocks of memory")
        assert more <= most and objects <= MOST_OBJECTS, f"what each round added: {grown}"
        kind = "debug" if hasattr(sys, "gettotalrefcount") else "ordinary"
        print(
            f"rank {job.rank}: {work.submitted} requests, {work.told} called back, {time.monotonic() - began:.0f} s; "
            f"Python {sys.version.split()[0]}, {kind} build; a round of {REQUESTS // ROUNDS} adds {objects} objects "
            f"and {more} {of_what}",
            flush=True,
        )


if __name__ == "__main__":
    main()
