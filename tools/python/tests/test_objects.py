"""Objects between ranks, by a serializer that is named."""

import array
import json
import unittest

from job import ranks

import weft


class Plain:
    """As odd a serializer as the interface allows: bytearrays, and some of no bytes."""

    @staticmethod
    def dumps(obj):
        return bytearray(obj)

    @staticmethod
    def loads(data):
        assert isinstance(data, bytes)
        return data


class Objects(unittest.TestCase):
    @ranks(3)
    def test_objects(job):
        g = job.world
        own = {"rank": g.rank, "text": "x" * 5000 * g.rank}
        for by in ("pickle", json):
            assert g.all_gather_object(own, by=by) == [{"rank": r, "text": "x" * 5000 * r} for r in range(3)]
            assert g.broadcast_object(own if g.rank == 2 else None, 2, by=by) == {"rank": 2, "text": "x" * 10000}
            if g.rank == 0:
                assert g.recv_object(1, 7, by=by) == ["first"] and g.recv_object(1, 7, by=by) == "second"
            elif g.rank == 1:
                changed = ["first"]
                sent = g.send_object(changed, 0, 7, by=by)
                changed.append("later")
                g.send_object("second", 0, 7, by=by).wait()
                sent.wait()
        assert g.all_gather_object(bytes(g.rank), by=Plain) == [b"", b"\0", b"\0\0"]
        assert g.broadcast_object(b"", 1, by=Plain) == b""
        assert g.all_gather_object({1, 2, g.rank}, by="pickle")[2] == {1, 2}

    @ranks(2)
    def test_refused(job):
        """By nothing that was not named, before anything is sent; what comes is bytes, or it is a mismatch."""
        g = job.world
        for wrong in ("json", None, 3):
            try:
                g.all_gather_object(1, by=wrong)
                raise AssertionError("not refused")
            except TypeError as error:
                assert f"by is {wrong!r}, expected" in str(error), error
        try:
            g.all_gather_object(1)
            raise AssertionError("pickle was not asked for")
        except TypeError as error:
            assert "by" in str(error), error
        try:
            g.send_object({1}, 1 - g.rank, by=json)
            raise AssertionError("json has no sets")
        except TypeError as error:
            assert "set" in str(error), error
        if g.rank == 1:
            g.isend(array.array("d", [1.0]), 0, 1).wait()
        else:
            try:
                g.recv_object(1, 1, by=json)
                raise AssertionError("a double is no object")
            except weft.MismatchError as error:
                assert "float64" in str(error), error
            try:
                g.recv_object(1, 2, by=json, timeout=0.1)
                raise AssertionError("nothing comes")
            except weft.TimeoutError as error:
                assert error.operation == "probe", error
        assert g.all_gather_object(g.rank, by=json) == [0, 1]


if __name__ == "__main__":
    unittest.main()
