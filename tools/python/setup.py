"""Builds the wheel: libweft.so and the tools by CMake, then weft._weft and weft._quick, which are linked with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))  # a build of its own environment does not look here

import _native_build  # noqa: E402

# What a source distribution has of the checkout: all that CMake reads without tests.
_SOURCES = ("CMakeLists.txt", "CMakePresets.json", "include", "net", "ops", "runtime", "tools", "tests/emulation")


class BuildNative(build_ext):
    """weft._weft, weft._quick and, beside them, the folder native with the library and the tools."""

    def run(self) -> None:
        _native_build.require_packages()
        import _ffi_build

        temporary = Path(self.build_temp).resolve()
        package = (here if self.inplace else Path(self.build_lib).resolve()) / "weft"
        staging = temporary / "staging"
        built = _native_build.build(temporary / "cmake")
        _native_build.install(built, staging, package / "native")
        library = next(staging.glob("lib*/libweft.so")).parent
        ffi = _ffi_build.builder(str(staging / "include"), str(library))
        source = temporary / "_weft.c"
        ffi.emit_c_code(str(source))
        name, _, _, options = ffi._assigned_source
        made_by_cffi = self.extensions[0]
        assert made_by_cffi.name == name
        made_by_cffi.sources = [os.path.relpath(source)]
        for extension in self.extensions:
            for option, value in options.items():
                setattr(extension, option, list(value))
            # By that auditwheel tells which C library it is for, also where it calls no function of it.
            extension.extra_link_args += ["-Wl,--no-as-needed", "-lc"]
        super().run()


class SourceDistribution(sdist):
    """With the C source in it, since a wheel is built of that."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        root = _native_build.source_folder()
        for name in _SOURCES:
            target = Path(base_dir) / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_dir():
                shutil.copytree(root / name, target, ignore=shutil.ignore_patterns("python", "__pycache__"))
            else:
                shutil.copy2(root / name, target)


def _extension(name: str, *sources: str) -> Extension:
    return Extension(name, list(sources), py_limited_api=True, define_macros=[("Py_LIMITED_API", "0x03090000")])


setup(
    ext_modules=[_extension("weft._weft"), _extension("weft._quick", "_quick.c")],
    cmdclass={"build_ext": BuildNative, "sdist": SourceDistribution},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
