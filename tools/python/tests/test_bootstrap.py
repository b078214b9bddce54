"""Meeting by what the caller brings."""

import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
from job import OverStore, over_mpi, ranks, run, run_over_mpi

import weft


class Broken(OverStore):
    def all_gather(self, own):
        raise LookupError("nobody is there")


OVER_MPI = """
import numpy, weft, weft.mpi
from mpi4py import MPI
half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
with weft.init(bootstrap=weft.mpi.bootstrap(half)) as job:
    assert (job.rank, job.size) == (half.rank, 2)
    assert job.world.all_reduce(numpy.ones(1)).result() == 2
"""


# Each rank says that it is a host of its own before it joins anything, for that is read once.
HOSTS = """
import os, sys, types
rank = int(os.environ["RANK"])
os.environ.update(WEFT_HOSTID=f"host{{rank}}", WEFT_SOCKET_IFNAME="lo", OWN="what both ranks of this test have")
os.environ.pop("WEFT_SECRET", None)
sys.path.insert(0, {tests!r})
import job, numpy, weft
store = weft.Store.open({url!r})
over = job.OverStore(types.SimpleNamespace(rank=rank, size=2, store=lambda: store))
try:
    weft.init(bootstrap=over)
    raise AssertionError("two hosts have met without a secret")
except weft.ArgumentError as error:
    for part in ("rank 0 (host ", "rank 1 (host ", "on different hosts, and the job has no secret: set WEFT_SECRET=file:PATH"):
        assert part in str(error), error
with weft.init(bootstrap=over, secret="env:OWN") as met:
    assert (met.size, met.local_size) == (2, 1), met
    assert met.world.all_reduce(numpy.ones(1)).result() == 2
"""


class Meeting(unittest.TestCase):
    @ranks(2)
    def test_own(job):
        with weft.init(bootstrap=OverStore(job)) as other:
            assert (other.rank, other.size) == (job.rank, 2)
            assert other.world.all_reduce(np.ones(1)).result() == 2
        try:
            weft.init(bootstrap=Broken(job))
            raise AssertionError("nobody is there")
        except LookupError:
            pass

    def test_hosts(self):
        """Ranks of different hosts meet with a secret alone; without one each is told what to set."""
        with tempfile.TemporaryDirectory() as folder:
            url, tests = pathlib.Path(folder, "store").as_uri(), os.path.dirname(__file__)
            run(self, 2, [sys.executable, "-c", HOSTS.format(tests=tests, url=url)])

    @over_mpi
    def test_mpi(self):
        """A part of COMM_WORLD."""
        run_over_mpi(self, 4, OVER_MPI)


if __name__ == "__main__":
    unittest.main()
