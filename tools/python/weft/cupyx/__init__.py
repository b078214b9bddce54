"""cupyx.distributed on Weft: init_process_group and NCCLBackend, with its methods, argument orders and shapes.

    import weft.cupyx as distributed

    comm = distributed.init_process_group(2, rank)
    comm.all_reduce(in_array, out_array, "sum")
    comm.stop()

Arrays are cupy's or numpy's, sparse matrices those of cupyx.scipy.sparse or scipy.sparse.  On a device an operation is
ordered after the stream's earlier work and before its later work, and the host does not wait for its end.  On the host it is
done when the method returns.
"""

from weft.cupyx.backend import NCCLBackend, init_process_group

__all__ = ["NCCLBackend", "init_process_group"]
