"""Meeting by what the caller brings."""

import unittest

import numpy as np
from job import OverStore, over_mpi, ranks, run_over_mpi

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

    @over_mpi
    def test_mpi(self):
        """A part of COMM_WORLD."""
        run_over_mpi(self, 4, OVER_MPI)


if __name__ == "__main__":
    unittest.main()
