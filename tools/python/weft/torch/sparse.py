"""The sum of sparse tensors: each rank gets the elements of all, and adds them in the order of ranks."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist

from weft.errors import UnsupportedError
from weft.group import Group
from weft.request import Request
from weft.torch.tensors import view

_OPERATION = "all_reduce"


def all_reduce(group: Group, tensor: Any, op: Any, timeout: Optional[float]) -> list[Request[Any]]:
    """Sum a sparse COO tensor over all ranks, in place.  Waits: nobody knows how many elements the others have."""
    if op != dist.ReduceOp.SUM:
        raise UnsupportedError(f"{_OPERATION}: sparse tensors are reduced by a sum only, not {op}")
    own = tensor.detach().coalesce()
    counts = _counts(group, own, timeout)
    indices = _of_all(group, own.indices().t().contiguous(), counts, timeout)
    values = _of_all(group, own.values().contiguous(), counts, timeout)
    with torch.no_grad():
        tensor.copy_(torch.sparse_coo_tensor(indices.t(), values, own.shape, check_invariants=True).coalesce())
    return []


def _counts(group: Group, own: Any, timeout: Optional[float]) -> list[int]:
    """How many elements each rank has; refuses tensors of different shapes, on every rank."""
    told = torch.tensor([own._nnz(), own.sparse_dim(), *own.shape])
    everybody = torch.empty((group.size, len(told)), dtype=torch.int64)
    group.all_gather(view(told, _OPERATION), view(everybody, _OPERATION), timeout=timeout).wait()
    for rank, other in enumerate(everybody.tolist()):
        if other[1:] != everybody[0].tolist()[1:]:
            raise ValueError(f"{_OPERATION}: rank 0 has a sparse tensor of {everybody[0].tolist()[2:]}, rank {rank} of {other[2:]}")
    return [int(count) for count in everybody[:, 0]]


def _of_all(group: Group, own: Any, counts: list[int], timeout: Optional[float]) -> Any:
    """The rows of all ranks."""
    whole = torch.empty((sum(counts), *own.shape[1:]), dtype=own.dtype, device=own.device)
    each = own[0].numel() if len(own) else whole.numel() // max(1, sum(counts))
    lengths = [count * each for count in counts]
    group.all_gather_v(view(own, _OPERATION), view(whole, _OPERATION), lengths, timeout=timeout).wait()
    return whole
