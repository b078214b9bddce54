"""What two ranks of a group do together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, TypeVar

from weft import arrays
from weft._weft import ffi, lib
from weft.errors import check
from weft.request import Request
from weft.submitter import Submitter, source

if TYPE_CHECKING:
    from weft.batch import Batch

T = TypeVar("T")

ANY_RANK = int(lib.WEFT_ANY_RANK)
ANY_TAG = int(lib.WEFT_ANY_TAG)


class Messages(Submitter):
    """The messages of a group, whose arguments Group explains."""

    def isend(
        self,
        array: T,
        peer: int,
        tag: int = 0,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Send an array to a rank.  Settles when the array may be changed again."""
        a = source(array, copy, stream)
        return self._submit(
            lib.weft_isend, (a.pointer, a.size, a.dtype, peer, tag), array, (a,), timeout, stream, label, batch
        )

    def irecv(
        self,
        array: T,
        peer: int = ANY_RANK,
        tag: int = ANY_TAG,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Receive into an array, which a shorter message fills in part; Request.info tells peer, tag and bytes.

        TruncatedError for a longer message, MismatchError for one of another type.
        """
        a = arrays.writable(array, "array")
        return self._submit(
            lib.weft_irecv, (a.pointer, a.size, a.dtype, peer, tag), array, (a,), timeout, stream, label, batch
        )

    def probe(
        self, peer: int = ANY_RANK, tag: int = ANY_TAG, *, timeout: Optional[float] = None, label: Optional[str] = None
    ) -> Request[None]:
        """Find the next message: Request.info tells peer, tag, bytes and dtype; receive_probed gets it."""
        return self._submit(lib.weft_probe, (peer, tag), None, (), timeout, None, label, None)

    def receive_probed(self, probe: Request[None], array: T, *, timeout: Optional[float] = None) -> Request[T]:
        """Receive the message that a probe has found."""
        a = arrays.writable(array, "array")
        slot = ffi.new("weft_request **")
        call = self._call(timeout, None, None, None, (a,))
        check(lib.weft_receive_probed(probe._live_handle(), a.pointer, a.size, a.dtype, call, slot))
        return Request(self._context, slot[0], array, (a, self))

    def send_recv(
        self,
        array: object,
        out: T,
        peer: int,
        *,
        copy: bool = False,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Exchange arrays of one size with a rank; out may be array itself."""
        a, o = source(array, copy, stream), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        args = (a.pointer, o.pointer, a.size, a.dtype, peer)
        return self._submit(lib.weft_send_recv, args, out, (a, o), timeout, stream, label, batch)
