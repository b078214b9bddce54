"""An operation in flight, as torch.distributed has it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist

from weft.errors import PendingError, TimeoutError, WeftError
from weft.request import Request
from weft.torch.helper import help_with


class Work(dist._Work):
    """What an operation of the process group returns.  It holds its tensors until it has settled.

    On the host wait() blocks until the operation has settled.  On a device it blocks the current stream instead.
    """

    def __init__(
        self,
        requests: Sequence[Request[object]],
        tensors: list[torch.Tensor],
        finish: Optional[Callable[[], object]],
        number: int,
    ) -> None:
        super().__init__()
        self._requests = requests
        self._tensors = tensors
        self._finish = finish  # copies what came into the tensors that it could not come into by itself
        self._finishing = threading.Lock()
        self._number = number
        self._future: Any = None
        self._on_device = any(tensor.is_cuda for tensor in tensors)

    def is_completed(self) -> bool:
        """Whether it has settled; never blocks."""
        return all(request.done() for request in self._requests)

    def is_success(self) -> bool:
        """Whether it has settled without a failure."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[WeftError]:
        """What it has failed with; None while it is in flight, and after success."""
        return next((_told(error) for r in self._requests if r.done() and (error := r.exception()) is not None), None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait, at most `timeout` unless it is 0.  Raises what the operation failed with."""
        if self._on_device:
            self.block_current_stream()
            return True
        limit = timeout.total_seconds()
        for request in self._requests:
            try:
                settled = request.wait(limit if limit > 0 else None)
            except WeftError as error:
                raise _told(error) from None
            if not settled:
                raise PendingError(f"{limit} s have passed: {request.message}")
        self._end()
        return True

    synchronize = wait

    def block_current_stream(self) -> None:
        """Let later work on torch's current stream wait for it; the host does not wait for its end."""
        if not self._on_device:
            self.wait()
            return
        stream = torch.cuda.current_stream()
        for request in self._requests:
            request.stream_wait(stream)
        self._end()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A torch.futures.Future of the tensors, which is set once the operation has settled."""
        if self._future is None:
            self._future = torch.futures.Future()
            left = [len(self._requests)]

            def tell(_: Request[Any]) -> None:
                left[0] -= 1
                if left[0] == 0:
                    self._set_future()

            for request in self._requests:
                request.add_done_callback(tell)
                if not self._on_device and not request.done():
                    help_with(request)
            if not self._requests:
                self._set_future()
        return self._future

    def result(self) -> list[torch.Tensor]:
        """The tensors that the operation has written."""
        return self._tensors

    def source_rank(self) -> int:
        """The rank in the group whose message a recv has taken."""
        return self._requests[0].info.peer

    _source_rank = source_rank

    def _get_sequence_number(self) -> int:
        return self._number

    def _set_future(self) -> None:
        error = self.exception()
        if error is not None:
            self._future.set_exception(error)
            return
        self._end()
        self._future.set_result(self._tensors)

    # Once, and whoever comes second goes on when it is done.
    def _end(self) -> None:
        if self._finish is None:
            return
        with self._finishing, torch.no_grad():
            if self._finish is not None:
                self._finish()
                self._finish = None


# Programs look for the word that torch has for it.
def _told(error: WeftError) -> WeftError:
    return error.extended(f"{error}; its timeout was reached") if isinstance(error, TimeoutError) else error
