"""Python objects between ranks, as the bytes that a serializer makes of them."""

from __future__ import annotations

from array import array
from typing import Optional, Protocol, TypeVar, Union, cast

from weft.collectives import Collectives
from weft.messages import Messages
from weft.request import Request

T = TypeVar("T")


class Serializer(Protocol):
    """What makes bytes or text of an object, and an object of bytes: the module json has both, for one."""

    def dumps(self, obj: object, /) -> Union[bytes, bytearray, str]: ...

    def loads(self, data: bytes, /) -> object: ...


class Objects(Collectives, Messages):
    """What a group does with objects.

    by  how they become bytes: json, or whatever has dumps and loads, or "pickle", which must be named: to unpickle is
        to run what the other rank wrote
    """

    def broadcast_object(
        self, obj: object, root: int = 0, *, by: Union[str, Serializer], timeout: Optional[float] = None
    ) -> object:
        """The root's object, on every rank.  Waits.  Elsewhere obj is not looked at."""
        data = _dump(obj, by) if self.rank == root else b""
        length = array("Q", [len(data)])
        self.broadcast(length, root, timeout=timeout).wait()
        if self.rank == root:
            self.broadcast(data, root, timeout=timeout).wait()
            return obj
        room = bytearray(length[0])
        self.broadcast(room, root, timeout=timeout).wait()
        return _load(bytes(room), by)

    def all_gather_object(self, obj: T, *, by: Union[str, Serializer], timeout: Optional[float] = None) -> list[T]:
        """The objects of all ranks, in the order of ranks.  Waits."""
        data = _dump(obj, by)
        lengths = array("Q", bytes(8 * self.size))
        self.all_gather(array("Q", [len(data)]), lengths, timeout=timeout).wait()
        room = bytearray(sum(lengths))
        self.all_gather_v(data, room, list(lengths), timeout=timeout).wait()
        found, begin = [], 0
        for length in lengths:
            found.append(cast(T, _load(bytes(room[begin : begin + length]), by)))
            begin += length
        return found

    def send_object(
        self,
        obj: object,
        peer: int,
        tag: int = 0,
        *,
        by: Union[str, Serializer],
        timeout: Optional[float] = None,
        label: Optional[str] = None,
    ) -> Request[bytes]:
        """Send an object to a rank, as one message of bytes; obj may be changed at once."""
        return self.isend(_dump(obj, by), peer, tag, timeout=timeout, label=label)

    def recv_object(
        self, peer: int, tag: int, *, by: Union[str, Serializer], timeout: Optional[float] = None
    ) -> object:
        """The object that a rank has sent.  Waits, at most `timeout` seconds for it to come."""
        probe = self.probe(peer, tag, timeout=timeout)
        probe.wait()
        room = bytearray(probe.info.bytes)
        self.receive_probed(probe, room, timeout=timeout).wait()
        return _load(bytes(room), by)


def _serializer(by: Union[str, Serializer]) -> Serializer:
    if by == "pickle":
        import pickle

        return pickle
    if isinstance(by, str) or not (hasattr(by, "dumps") and hasattr(by, "loads")):
        raise TypeError(f'by is {by!r}, expected "pickle", or what has dumps and loads, as the module json')
    return by


def _dump(obj: object, by: Union[str, Serializer]) -> bytes:
    data = _serializer(by).dumps(obj)
    return data.encode() if isinstance(data, str) else bytes(data)


def _load(data: bytes, by: Union[str, Serializer]) -> object:
    return _serializer(by).loads(data)
