"""The wheel as it is installed, beside another package with a libzmq of its own, and torch where that is.

What runs these tests has the wheel and pyzmq.
"""

import importlib.util
import itertools
import subprocess
import sys
import unittest

PROGRAM = """
{imports}
import ctypes
mapped = {{line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}}
for name in ("libzmq", "libsodium", "libevent"):
    found = [path for path in mapped if f"/{{name}}" in path]
    assert found and all("site-packages" in path for path in found), (name, found)
assert any("/weft.libs/libzmq" in path for path in mapped), mapped
assert any("/pyzmq.libs/libzmq" in path or "/zmq/" in path for path in mapped), mapped
context = zmq.Context()
a, b = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
a.bind("inproc://here")
b.connect("inproc://here")
with weft.init() as job:
    total = bytearray(8)
    total[0] = job.rank + 1
    job.world.all_reduce(memoryview(total)).wait()
    assert total[0] == 3, total
    if "torch" in sys.modules:
        ones = torch.ones(3)
        job.world.all_reduce(ones).wait()
        assert (ones @ ones).item() == 12, ones
    b.send(b"there")
    assert a.recv() == b"there"
context.destroy()
print("both")
"""


class Wheel(unittest.TestCase):
    def test_beside_pyzmq(self):
        """Imported before it and after it; each has its own libzmq, and ranks meet under the wheel's weft-run."""
        self.expect_all_orders("zmq", "weft")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
    def test_beside_torch(self):
        """With pyzmq too, in all orders."""
        self.expect_all_orders("torch", "zmq", "weft")

    def expect_all_orders(self, *packages):
        for order in itertools.permutations(packages):
            program = PROGRAM.format(imports="import sys, " + ", ".join(order))
            command = [sys.executable, "-m", "weft.run", "-n", "2", sys.executable, "-c", program]
            with self.subTest(order):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, "both\nboth\n"), done.stderr)

    def test_tools(self):
        command = [sys.executable, "-m", "weft.info", "--operations"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all_reduce", done.stdout)


if __name__ == "__main__":
    unittest.main()
