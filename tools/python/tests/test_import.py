"""Where weft can be imported and built, and the sentence where it cannot."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

from weft import interpreter

# Beside the source of weft, which is not to be imported.
_place = pathlib.Path(__file__).resolve().parent.parent / "_native_build.py"
_spec = importlib.util.spec_from_file_location("_native_build", _place)
_native_build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_native_build)

IN_SUB_INTERPRETER = """
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
run = getattr(made, "exec", None) or made.run_string
{before}
failed = run(made.create(), '''
try:
    import weft
    print("imported")
except ImportError as error:
    print(error)
''')
assert failed is None, failed
"""

IMPORT_LIMIT_S = 0.1
IMPORTS = 10  # the best counts: a machine may do something else too


def said(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


class Import(unittest.TestCase):
    def test_sub_interpreter(self):
        """Refused by a sentence, whether the main interpreter has imported it or not."""
        for before in ("", "import weft"):
            with self.subTest(before):
                found = said(IN_SUB_INTERPRETER.format(before=before))
                self.assertTrue(found.startswith("weft cannot be imported in a sub-interpreter: "), found)

    def test_free_threaded(self):
        """Refused by a sentence, when it is built and when it is imported."""
        with unittest.mock.patch.object(sys, "abiflags", "t"):
            for refuse in (interpreter.require_supported, _native_build.require_packages):
                with self.assertRaises((ImportError, SystemExit)) as told:
                    refuse()
                self.assertIn("does not run on free-threaded builds of Python", str(told.exception))

    def test_missing_packages(self):
        """Who has no compiler is told what to install."""
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            with self.assertRaises(SystemExit) as told:
                _native_build.require_packages()
        for package in ("gcc", "cmake", "ninja-build", "pkg-config", "libevent-dev", "libzmq3-dev", "libsodium-dev"):
            self.assertIn(f" {package}", str(told.exception))

    def test_time(self):
        """At most 100 ms of a processor: what a machine that does something else adds is not weft's."""
        program = "import time; began = time.process_time(); import weft; print(time.process_time() - began)"
        best = min(float(said(program)) for _ in range(IMPORTS))
        self.assertLess(best, IMPORT_LIMIT_S)


if __name__ == "__main__":
    unittest.main()
