"""nvmath.distributed's runtime on Weft: a set of processes becomes a job, with the memory that its ranks share.

    import weft.nvmath as distributed
    from weft.nvmath import MPIProcessGroup
    from mpi4py import MPI

    distributed.initialize(device_id, MPIProcessGroup(MPI.COMM_WORLD), backends=["nccl"])
    world = distributed.get_context().weft.world

What nvmath computes with this (FFT, reshape, matmul) is not here.
"""

from weft.nvmath.process_group import (
    MPIProcessGroup,
    ProcessGroup,
    ReductionOp,
    TorchProcessGroup,
    WeftProcessGroup,
)
from weft.nvmath.runtime import DistributedContext, finalize, get_context, initialize
from weft.nvmath.symmetric_memory import allocate_symmetric_memory, free_symmetric_memory

__all__ = [
    "DistributedContext",
    "MPIProcessGroup",
    "ProcessGroup",
    "ReductionOp",
    "TorchProcessGroup",
    "WeftProcessGroup",
    "allocate_symmetric_memory",
    "finalize",
    "free_symmetric_memory",
    "get_context",
    "initialize",
]
