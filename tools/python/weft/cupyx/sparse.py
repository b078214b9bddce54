"""Sparse matrices between ranks: their shapes and sizes by the host, then their three arrays.

COO, CSR and CSC of scipy.sparse and cupyx.scipy.sparse.  Sizes may differ from rank to rank, formats and types may not.
What a rank receives replaces what the matrix that it has given held.  Whoever needs the sizes waits for them, on the
host; arrays on a device follow the stream.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Protocol, Sequence

import numpy

from weft.cupyx.dense import Run
from weft.group import Group
from weft.request import Request

_FORMATS = ("coo", "csr", "csc")
_OPS = {"sum": operator.add, "prod": operator.matmul}

# What a rank tells of a matrix: its two extents, the sizes of its arrays, the bytes of an index.
_HEADER = 6


class Matrix(Protocol):
    """What the sparse matrices of scipy and cupyx have in common, as far as it is needed here."""

    @property
    def format(self) -> str: ...

    @property
    def nnz(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


def is_sparse(matrix: object) -> bool:
    """Whether this is a sparse matrix, of any format."""
    return hasattr(matrix, "nnz") and hasattr(matrix, "format")


class Sparse:
    """The operations of a group on sparse matrices."""

    def __init__(self, group: Group, run: Run) -> None:
        self._group = group
        self._run = run

    def broadcast(self, matrix: Any, root: int) -> None:
        """Root's matrix, on every rank."""
        header = _header(matrix)
        self._group.broadcast(header, root).wait()
        arrays = _arrays(matrix) if self._group.rank == root else _room(matrix, header)
        for each in arrays:
            self._dense(each, self._group.broadcast, each, root)
        if self._group.rank != root:
            _assign(matrix, arrays, header)

    def all_gather(self, matrix: Any, out: list[Any], count: int = 0) -> None:
        """The matrices of all ranks, in the order of ranks, are appended to a list; a count means nothing here."""
        headers = numpy.empty((self._group.size, _HEADER), numpy.int64)
        self._group.all_gather(_header(matrix), headers).wait()
        out.extend(self._collect(matrix, headers, self._group.all_gather_v))

    def gather(self, matrix: Any, out: list[Any], root: int) -> None:
        """As all_gather, on root; elsewhere nothing is appended."""
        group = self._group
        widest = numpy.array([_header(matrix)[-1]])
        group.all_reduce(widest, op="max").wait()
        headers = numpy.empty((group.size, _HEADER), numpy.int64)
        group.gather(_header(matrix), headers if group.rank == root else None, root).wait()
        if group.rank == root:
            out.extend(self._collect(matrix, headers, functools.partial(group.gather_v, root=root)))
            return
        for own in _widened(_arrays(matrix), int(widest[0])):
            self._dense(own, group.gather_v, own, None, None, None, root)

    def reduce(self, matrix: Any, out: Any, root: int, op: str) -> None:
        """The sum of all matrices, or their product as matrices, in the order of ranks; into root's out."""
        _check_op(op)
        if self._group.rank == root:
            _check_format(matrix, out)
        found: list[Any] = []
        self.gather(matrix, found, root)
        if found:
            _replace(out, functools.reduce(_OPS[op], found))

    def all_reduce(self, matrix: Any, out: Any, op: str) -> None:
        """As reduce, into out of every rank."""
        _check_op(op)
        _check_format(matrix, out)
        found: list[Any] = []
        self.all_gather(matrix, found)
        _replace(out, functools.reduce(_OPS[op], found))

    def scatter(self, matrices: Sequence[Any], out: Any, root: int) -> None:
        """Each rank gets its matrix of root's list; elsewhere the list is not looked at."""
        group = self._group
        if group.rank == root:
            _check_list(matrices, group.size, "scatter")
            for each in matrices:
                _check_format(each, out)
        header = numpy.empty(_HEADER, numpy.int64)
        headers = numpy.stack([_header(each) for each in matrices]) if group.rank == root else None
        if headers is not None:
            headers[:, -1] = headers[:, -1].max()
        group.scatter(headers, header, root).wait()
        room = _room(out, header)
        for which, own in enumerate(room):
            whole, counts = None, None
            if headers is not None:
                parts = [_widened(_arrays(each), int(header[-1]))[which] for each in matrices]
                whole, counts = _package(out).concatenate(parts), [part.size for part in parts]
            self._dense(own, group.scatter_v, whole, own, counts, None, root)
        _assign(out, room, header)

    def send(self, matrix: Any, peer: int) -> None:
        """To a rank, which calls recv."""
        self._group.isend(_header(matrix), peer).wait()
        for each in _arrays(matrix):
            self._dense(each, self._group.isend, each, peer)

    def recv(self, out: Any, peer: int) -> None:
        """What a rank sends."""
        header = numpy.empty(_HEADER, numpy.int64)
        self._group.irecv(header, peer, 0).wait()
        room = _room(out, header)
        for each in room:
            self._dense(each, self._group.irecv, each, peer, 0)
        _assign(out, room, header)

    def send_recv(self, matrix: Any, out: Any, peer: int) -> None:
        """To a rank and from it at once."""
        header = numpy.empty(_HEADER, numpy.int64)
        self._group.send_recv(_header(matrix), header, peer).wait()
        room = _room(out, header)
        for own, other in zip(_arrays(matrix), room):
            self._run(own, functools.partial(self._start_send_recv, own, other, peer))
        _assign(out, room, header)

    def all_to_all(self, matrices: Sequence[Any], out: list[Any]) -> None:
        """Each rank's matrix of this rank's list; those from all ranks, in the order of ranks, are appended to out."""
        group = self._group
        _check_list(matrices, group.size, "all_to_all")
        headers = numpy.stack([_header(each) for each in matrices])
        widest = numpy.array([headers[:, -1].max()])
        group.all_reduce(widest, op="max").wait()
        headers[:, -1] = widest
        others = numpy.empty_like(headers)
        group.all_to_all(headers, others).wait()
        like, columns = matrices[0], []
        for which, parts in enumerate(zip(*(_widened(_arrays(each), int(widest[0])) for each in matrices))):
            into = [int(count) for count in others[:, 2 + which]]
            whole, room = _package(like).concatenate(parts), _package(like).empty(sum(into), parts[0].dtype)
            self._dense(whole, group.all_to_all_v, whole, [part.size for part in parts], room, into)
            columns.append(_package(like).split(room, numpy.cumsum(into)[:-1].tolist()))
        out.extend(_made(like, parts, header) for parts, header in zip(zip(*columns), others))

    def reduce_scatter(self, matrices: Sequence[Any], out: Any, count: int, op: str) -> None:
        """Each rank gets the sum, or product, of what all ranks have for it in their lists; a count means nothing here."""
        _check_op(op)
        _check_list(matrices, self._group.size, "reduce_scatter")
        for each in matrices:
            _check_format(each, out)
        found: list[Any] = []
        self.all_to_all(matrices, found)
        _replace(out, functools.reduce(_OPS[op], found))

    def _start_send_recv(self, own: Any, other: Any, peer: int, stream: object) -> Request[None]:
        with self._group.batch() as batch:
            self._group.isend(own, peer, stream=stream, batch=batch)
            self._group.irecv(other, peer, 0, stream=stream, batch=batch)
        return batch.request

    # An operation on one of the arrays, on the device if that lies there.
    def _dense(self, array: Any, operation: Callable[..., Request[Any]], *arguments: Any) -> None:
        self._run(array, lambda stream: operation(*arguments, stream=stream))

    # The parts of all ranks, one after the other, for each of the three arrays; then a matrix of each rank's parts.
    def _collect(self, matrix: Any, headers: Any, operation: Callable[..., Request[Any]]) -> list[Any]:
        index_bytes = int(headers[:, -1].max())
        columns = []
        for which, own in enumerate(_widened(_arrays(matrix), index_bytes)):
            counts = [int(count) for count in headers[:, 2 + which]]
            whole = _package(matrix).empty(sum(counts), own.dtype)
            self._dense(own, operation, own, whole, counts)
            columns.append(_package(matrix).split(whole, numpy.cumsum(counts)[:-1].tolist()))
        return [_made(matrix, parts, header) for parts, header in zip(zip(*columns), headers)]


def _check_op(op: str) -> None:
    if op not in _OPS:
        raise ValueError(f"Sparse matrices are reduced by sum and prod only, not {op}")


def _check_list(matrices: object, size: int, operation: str) -> None:
    if not isinstance(matrices, (list, tuple)):
        raise ValueError(f"{operation}: in_array must be a list or a tuple of sparse matrices")
    if len(matrices) != size:
        raise RuntimeError(f"{operation} requires a list of {size} matrices, found {len(matrices)}")


def _check_format(matrix: Any, out: Any) -> None:
    if getattr(out, "format", None) != matrix.format:
        raise ValueError(f"in_array is {matrix.format} and out_array is {getattr(out, 'format', type(out).__name__)}")


def _package(matrix: Any) -> Any:
    if type(matrix.data).__module__.partition(".")[0] == "cupy":
        import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return cupy
    return numpy


def _arrays(matrix: Any) -> tuple[Any, Any, Any]:
    if matrix.format == "coo":
        matrix.sum_duplicates()
        return matrix.data, matrix.row, matrix.col
    if matrix.format in _FORMATS:
        return matrix.data, matrix.indptr, matrix.indices
    raise TypeError(f"a sparse matrix in format {matrix.format} is not supported, expected one of {', '.join(_FORMATS)}")


def _header(matrix: Any) -> Any:
    arrays = _arrays(matrix)
    return numpy.array([*matrix.shape, *(each.size for each in arrays), arrays[1].dtype.itemsize], numpy.int64)


def _room(matrix: Any, header: Any) -> tuple[Any, Any, Any]:
    """Arrays for what a header tells of, with elements of the matrix's own type."""
    sizes, index = [int(size) for size in header[2:5]], f"i{int(header[5])}"
    empty = _package(matrix).empty
    return empty(sizes[0], matrix.data.dtype), empty(sizes[1], index), empty(sizes[2], index)


def _widened(arrays: tuple[Any, Any, Any], index_bytes: int) -> tuple[Any, Any, Any]:
    index = f"i{index_bytes}"
    return arrays[0], arrays[1].astype(index, copy=False), arrays[2].astype(index, copy=False)


def _made(like: Any, arrays: Sequence[Any], header: Any) -> Any:
    return type(like)(_contents(like, arrays), shape=(int(header[0]), int(header[1])))


def _assign(matrix: Any, arrays: Sequence[Any], header: Any) -> None:
    matrix.__init__(_contents(matrix, arrays), shape=(int(header[0]), int(header[1])))


def _replace(out: Any, result: Any) -> None:
    same = result.asformat(out.format)
    _assign(out, _arrays(same), _header(same))


# As the constructors take it: indices before the row or column that each begins with.
def _contents(matrix: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
    if matrix.format == "coo":
        return arrays[0], (arrays[1], arrays[2])
    return arrays[0], arrays[2], arrays[1]
