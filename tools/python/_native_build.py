"""Builds libweft.so and the tools, and lays what the wheel needs of them into a folder.

What is missing on this machine is told in one sentence, before CMake begins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# What is looked for, and Debian's package that has it.
_COMMANDS = {"cc": "gcc", "cmake": "cmake", "ninja": "ninja-build", "pkg-config": "pkg-config", "awk": "mawk"}
_LIBRARIES = {"libevent_pthreads": "libevent-dev", "libzmq": "libzmq3-dev", "libsodium": "libsodium-dev"}

_TOOLS = ("weft-run", "weft-info", "weft-inspect")


def missing_packages() -> list[str]:
    """Debian's names of the packages that a build needs and that are not here."""
    compiler = os.environ.get("CC", "cc").split()[0]
    missing = [
        package
        for command, package in _COMMANDS.items()
        if shutil.which(compiler if command == "cc" else command) is None
    ]
    if "pkg-config" in missing:
        missing += _LIBRARIES.values()
    else:
        missing += [
            package
            for library, package in _LIBRARIES.items()
            if subprocess.run(["pkg-config", "--exists", library], check=False).returncode != 0
        ]
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        missing.append("python3-dev")
    return missing


def require_packages() -> None:
    """Ends the build with a sentence if something that it needs is not here, or if this is no Python for it."""
    if "t" in getattr(sys, "abiflags", ""):
        raise SystemExit("weft does not run on free-threaded builds of Python: its extension is made for the stable ABI")
    missing = missing_packages()
    if missing:
        raise SystemExit("weft is built from C source and needs these packages (Debian's names): " + " ".join(missing))


def source_folder() -> Path:
    """The C source: beside this file in a source distribution, else the checkout around it."""
    here = Path(__file__).resolve().parent
    carried = here / "source"
    return carried if carried.exists() else here.parent.parent


def build(folder: Path) -> Path:
    """Builds the C library in `folder`, or takes WEFT_BUILD_DIR where it has been built, and gives the build's folder."""
    given = os.environ.get("WEFT_BUILD_DIR")
    if given:
        return Path(given).resolve()
    configure = ["cmake", "-S", str(source_folder()), "-B", str(folder), "-G", "Ninja"]
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DWEFT_BUILD_TESTS=OFF", "-DWEFT_BUILD_TOOLS=ON"]
    configure += ["-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_INSTALL_BINDIR=bin"]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(folder)], check=True)
    return folder


def install(built: Path, staging: Path, target: Path) -> None:
    """Installs the build into `staging`, and of that into `target` what runs: lib/libweft.so.N, modules, tools.

    A wheel keeps no links, so the library is there once, by the name that programs ask for.
    """
    shutil.rmtree(staging, ignore_errors=True)
    subprocess.run(["cmake", "--install", str(built), "--strip", "--prefix", str(staging)], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(target, ignore_errors=True)
    (target / "lib").mkdir(parents=True)
    (target / "bin").mkdir()
    library = next(staging.glob("lib*/libweft.so"))
    soname = ".".join(library.resolve().name.split(".")[:3])  # libweft.so.0.1.0: libweft.so.0
    shutil.copy2(library.resolve(), target / "lib" / soname)
    for module in library.parent.glob("weft/libweft_*.so"):
        (target / "lib" / "weft").mkdir(exist_ok=True)
        shutil.copy2(module, target / "lib" / "weft" / module.name)
    for tool in _TOOLS:
        shutil.copy2(staging / "bin" / tool, target / "bin" / tool)
