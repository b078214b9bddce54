"""A grid of ranks with named axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft._weft import ffi, lib
from weft.errors import ArgumentError, StateError, check, text
from weft.group import Group

if TYPE_CHECKING:
    from weft._weft import CData


class Mesh:
    """A grid of ranks, made by Group.mesh("pp=2,dp=-1,tp=8").  mesh["tp"] is this rank's group along an axis."""

    def __init__(self, parent: Group, handle: CData) -> None:
        self._parent = parent
        self._handle = handle

    def group(self, axes: str) -> Group:
        """This rank's group along one axis "tp", or along several as one "dp,tp", in the mesh's order.

        It costs nothing until it is used.  ArgumentError for an axis that is not there.
        """
        found = lib.weft_mesh_group(self._open_handle(), axes.encode())
        if found == ffi.NULL:
            raise ArgumentError(text(lib.weft_last_error()))
        return Group(self._parent.context, found, self)

    __getitem__ = group

    def coord(self, axis: str) -> int:
        """This rank's place on an axis."""
        return self._known(axis, lib.weft_mesh_coord(self._open_handle(), axis.encode()))

    def size(self, axis: str) -> int:
        """The length of an axis."""
        return self._known(axis, lib.weft_mesh_size(self._open_handle(), axis.encode()))

    def free(self) -> None:
        """Free the mesh and its groups; pending operations finish first."""
        check(lib.weft_mesh_free(self._open_handle()))
        self._handle = ffi.NULL

    def _open_handle(self) -> Any:
        if self._handle == ffi.NULL or self._parent.context.closed:
            raise StateError("this mesh is freed")
        return self._handle

    def _known(self, axis: str, number: int) -> int:
        if number < 0:
            raise ArgumentError(f"{axis!r} is no axis of this mesh")
        return number
