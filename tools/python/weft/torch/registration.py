"""How torch makes a process group of the backend "weft"."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist

from weft.context import Context, init
from weft.torch import meeting
from weft.torch.process_group import ProcessGroup
from weft.torch.roll_call import RollCall

NAME = "weft"
_OLD_NAME = "tcp"  # the backend for the host that torch had before gloo

_LABEL_CHARS = 31

_joined: list[Context] = []  # the context of torch's default group, while there is one


def register() -> None:
    """Makes "weft", and "tcp" of 2017, known to torch.distributed, with its init methods; a second call does nothing."""
    meeting.register((NAME, _OLD_NAME))
    for name in (NAME, _OLD_NAME):
        if not hasattr(dist.Backend, name.upper()):
            dist.Backend.register_backend(name, _create, extended_api=True, devices=["cpu", "cuda"])
            _recording_itself(name)


# torch's flight recorder hangs itself on a group's C++ backend, which a group in Python has not.  Weft has a record of
# its own, and torch has had a list of such backends since 2.15.
def _recording_itself(name: str) -> None:
    known = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", None)
    if isinstance(known, set):
        known.add(name)


def device() -> int:
    """The CUDA device that torch has on this thread, or -1."""
    return int(torch.cuda.current_device()) if torch.cuda.is_available() else -1


def _create(options: Any, _: Any) -> Any:
    ranks, timeout = list(options.global_ranks_in_group), options.timeout
    world = _joined[0] if _joined and not _joined[0].closed else None
    if ranks and world is not None:
        group = world.world.new_group(ranks, label=_label(options.group_id), timeout=timeout.total_seconds())
        return ProcessGroup(group, None, options.store, timeout)
    context = None if ranks else meeting.take(options.group_rank, options.group_size)
    if context is None:
        bootstrap = RollCall(options.store, options.group_rank, options.group_size, timeout)
        context = init(bootstrap=bootstrap, device=device(), timeout=bootstrap.left())  # until the same deadline
        context.world.set_timeout(timeout.total_seconds())
    if not ranks:
        _joined[:] = [context]
    return ProcessGroup(context.world, context, options.store, timeout)


# A label has no blanks, as the messages that it stands in are read by words.
def _label(group_name: Optional[str]) -> Optional[str]:
    return "_".join(group_name.split())[:_LABEL_CHARS] if group_name else None
