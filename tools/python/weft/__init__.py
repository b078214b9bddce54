"""Weft: asynchronous communication between the ranks of a job.

    import numpy, weft

    with weft.init() as job:
        x = numpy.ones(4)
        sum = job.world.all_reduce(x)   # returns at once
        ...                             # something else meanwhile
        sum.wait()                      # now x is the sum over all ranks
"""

from weft import interpreter

interpreter.require_supported()

from weft.batch import Batch
from weft.bootstrap import Bootstrap
from weft.context import Context, init
from weft.errors import (
    ArgumentError,
    AuthError,
    BrokenError,
    CancelledError,
    MismatchError,
    OutOfMemoryError,
    PeerError,
    PendingError,
    StateError,
    SystemCallError,
    TimeoutError,
    TruncatedError,
    UnsupportedError,
    WeftError,
)
from weft.group import Group
from weft.mesh import Mesh
from weft.messages import ANY_RANK, ANY_TAG
from weft.request import Request, RequestInfo, wait_all
from weft.store import Store

__version__ = "0.1.0"

__all__ = [
    "ANY_RANK",
    "ANY_TAG",
    "ArgumentError",
    "AuthError",
    "Batch",
    "Bootstrap",
    "BrokenError",
    "CancelledError",
    "Context",
    "Group",
    "MismatchError",
    "Mesh",
    "OutOfMemoryError",
    "PeerError",
    "PendingError",
    "Request",
    "RequestInfo",
    "StateError",
    "Store",
    "SystemCallError",
    "TimeoutError",
    "TruncatedError",
    "UnsupportedError",
    "WeftError",
    "init",
    "wait_all",
]
