"""What all ranks of a group do together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, TypeVar

from weft import _quick, arrays, dtypes
from weft._weft import ffi, lib
from weft.arrays import View
from weft.errors import check
from weft.request import Request
from weft.submitter import Submitter
from weft.submitter import source as _source

if TYPE_CHECKING:
    from weft.batch import Batch

T = TypeVar("T")

_quick.prepare(Request, check, dtypes.REDUCTIONS, arrays._numpy_codes, arrays._given_back)

_NOTHING = View(ffi.NULL, 0, 0, lib.WEFT_MEMORY_AUTO, True, None, None)


class Collectives(Submitter):
    """The collectives of a group, whose arguments Group explains."""

    # ---- collectives ---------------------------------------------------------------------------------------------

    def broadcast(
        self,
        array: T,
        root: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Copy the root's array to every rank's."""
        if copy:
            array = arrays.copied(array, "array", stream)
        a = arrays.view(array, "array") if self.rank == root else arrays.writable(array, "array")
        return self._submit(
            lib.weft_broadcast, (a.pointer, a.size, a.dtype, root), array, (a,), timeout, stream, label, batch
        )

    def all_reduce(
        self,
        array: T,
        out: Optional[T] = None,
        op: str = "sum",
        *,
        scale: float = 0.0,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Reduce the arrays of all ranks, element by element, into out of every rank; without out in place.

        op: "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", or "premul_sum", which takes scale.
        """
        if timeout is stream is label is None and batch is None and not (copy or scale):
            request: Optional[Request[T]] = _quick.all_reduce(self, self._context, self._address, array, out, op)
            if request is not None:
                return request
        a, o, result = self._in_and_out(array, out, copy, stream)
        args = (a.pointer, o.pointer, a.size, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_all_reduce, args, result, (a, o), timeout, stream, label, batch, scale)

    def reduce(
        self,
        array: T,
        out: Optional[T] = None,
        op: str = "sum",
        root: int = 0,
        *,
        scale: float = 0.0,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_reduce, on root alone; elsewhere out is not looked at."""
        if self.rank == root:
            a, o, result = self._in_and_out(array, out, copy, stream)
        else:
            a, o, result = _source(array, copy, stream), _NOTHING, array
        args = (a.pointer, o.pointer, a.size, a.dtype, dtypes.reduction(op), root)
        return self._submit(lib.weft_reduce, args, result, (a, o), timeout, stream, label, batch, scale)

    def reduce_scatter(
        self,
        array: object,
        out: T,
        op: str = "sum",
        *,
        scale: float = 0.0,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Reduce arrays of size * n elements, of which this rank's block of n comes into out."""
        a, o = _source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(a, o.size * self.size, "array", f"{self.size} ranks times the {o.size} of out")
        arrays.expect_apart(a, o, self.rank * o.nbytes)
        args = (a.pointer, o.pointer, o.size, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_reduce_scatter, args, out, (a, o), timeout, stream, label, batch, scale)

    def all_gather(
        self,
        array: object,
        out: T,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """The arrays of all ranks, of n elements each, one after the other into out, of size * n."""
        a, o = self._into_blocks(array, out, copy, stream)
        args = (a.pointer, o.pointer, a.size, a.dtype)
        return self._submit(lib.weft_all_gather, args, out, (a, o), timeout, stream, label, batch)

    def gather(
        self,
        array: object,
        out: T,
        root: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather, into out on root alone; elsewhere out may be None."""
        if self.rank == root:
            a, o = self._into_blocks(array, out, copy, stream)
        else:
            a, o = _source(array, copy, stream), _NOTHING
        args = (a.pointer, o.pointer, a.size, a.dtype, root)
        return self._submit(lib.weft_gather, args, out, (a, o), timeout, stream, label, batch)

    def scatter(
        self,
        array: object,
        out: T,
        root: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Each rank gets its block of n elements of the root's array of size * n; elsewhere array may be None."""
        o = arrays.writable(out, "out")
        a = _NOTHING
        if self.rank == root:
            a = _source(array, copy, stream)
            arrays.expect_alike(a, o)
            arrays.expect_count(a, o.size * self.size, "array", f"{self.size} ranks times the {o.size} of out")
            arrays.expect_apart(a, o, root * o.nbytes)
        args = (a.pointer, o.pointer, o.size, o.dtype, root)
        return self._submit(lib.weft_scatter, args, out, (a, o), timeout, stream, label, batch)

    def all_to_all(
        self,
        array: object,
        out: T,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """A block from each rank to each: both of size * n elements, block r goes to and comes from rank r."""
        a, o = _source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        if a.size % self.size:
            raise ValueError(f"array has {a.size} elements, expected a multiple of the {self.size} ranks")
        args = (a.pointer, o.pointer, a.size // self.size, a.dtype)
        return self._submit(lib.weft_all_to_all, args, out, (a, o), timeout, stream, label, batch)

    def barrier(
        self, *, timeout: Optional[float] = None, label: Optional[str] = None, batch: Optional[Batch] = None
    ) -> Request[None]:
        """No rank's barrier settles before all ranks have submitted it."""
        return self._submit(lib.weft_barrier, (), None, (), timeout, None, label, batch)

    # ---- collectives of uneven blocks: counts[r] elements at displs[r], packed without displs ----------------------

    def all_gather_v(
        self,
        array: object,
        out: T,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather of counts[r] elements of rank r; counts and displs are equal on all ranks."""
        a, o = _source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(o, "out", counts, displs)
        arrays.expect_count(a, counts[self.rank], "array", f"counts[{self.rank}]")
        args = (a.pointer, a.size, o.pointer, counts, _or_null(displs), a.dtype)
        return self._submit(lib.weft_all_gather_v, args, out, (a, o), timeout, stream, label, batch)

    def gather_v(
        self,
        array: object,
        out: T,
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather_v, on root alone; elsewhere out, counts and displs may be None."""
        a, o = _source(array, copy, stream), _NOTHING
        if self.rank == root:
            o = arrays.writable(out, "out")
            arrays.expect_alike(a, o)
            self._expect_blocks(o, "out", counts, displs)
        args = (a.pointer, a.size, o.pointer, _or_null(counts), _or_null(displs), a.dtype, root)
        return self._submit(lib.weft_gather_v, args, out, (a, o), timeout, stream, label, batch)

    def scatter_v(
        self,
        array: object,
        out: T,
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As scatter of counts[r] elements to rank r; elsewhere than on root array, counts and displs may be None."""
        a, o = _NOTHING, arrays.writable(out, "out")
        if self.rank == root:
            a = _source(array, copy, stream)
            arrays.expect_alike(a, o)
            self._expect_blocks(a, "array", counts, displs)
        args = (a.pointer, _or_null(counts), _or_null(displs), o.pointer, o.size, o.dtype, root)
        return self._submit(lib.weft_scatter_v, args, out, (a, o), timeout, stream, label, batch)

    def reduce_scatter_v(
        self,
        array: object,
        out: T,
        counts: Sequence[int],
        op: str = "sum",
        *,
        scale: float = 0.0,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As reduce_scatter of counts[r] elements for rank r; counts are equal on all ranks."""
        a, o = _source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(a, "array", counts, None)
        arrays.expect_count(o, counts[self.rank], "out", f"counts[{self.rank}]")
        args = (a.pointer, o.pointer, counts, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_reduce_scatter_v, args, out, (a, o), timeout, stream, label, batch, scale)

    def all_to_all_v(
        self,
        array: object,
        in_counts: Sequence[int],
        out: T,
        out_counts: Sequence[int],
        in_displs: Optional[Sequence[int]] = None,
        out_displs: Optional[Sequence[int]] = None,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """A block from each rank to each: in_counts[r] is what rank r has as out_counts of this rank."""
        a, o = _source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(a, "array", in_counts, in_displs)
        self._expect_blocks(o, "out", out_counts, out_displs)
        arrays.expect_apart(a, o, None)
        args = (a.pointer, in_counts, _or_null(in_displs), o.pointer, out_counts, _or_null(out_displs), a.dtype)
        return self._submit(lib.weft_all_to_all_v, args, out, (a, o), timeout, stream, label, batch)


def _or_null(numbers: Optional[Sequence[int]]) -> Any:
    return ffi.NULL if numbers is None else numbers
