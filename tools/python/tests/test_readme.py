"""The programs of README.md run as they stand there, and so do the two commands of the package."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from job import run

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


class Readme(unittest.TestCase):
    def test_programs(self):
        programs = re.findall(r"```python\n(# (\d+) ranks.*?)```", README.read_text(), re.DOTALL)
        self.assertGreaterEqual(len(programs), 5)
        with tempfile.TemporaryDirectory() as folder:
            for text, ranks in programs:
                path = pathlib.Path(folder, "program.py")
                path.write_text(text)
                with self.subTest(text.splitlines()[0]):
                    run(self, int(ranks), [sys.executable, str(path)])

    def test_commands(self):
        for module, arguments, expected in (
            ("weft.run", ["-n", "2", "echo", "there"], "there\nthere\n"),
            ("weft.info", ["--operations"], "all_reduce"),
        ):
            command = [sys.executable, "-m", module, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(expected, done.stdout)


if __name__ == "__main__":
    unittest.main()
