"""The build backend: scikit-build-core, with a compiler from PyPI where the machine has none.

Called as a program it builds the compiled core into the source tree, for work on oblong:

    python build_backend/oblong_build.py                    the instructions of this machine
    python build_backend/oblong_build.py checked            every index is checked
    python build_backend/oblong_build.py sanitized          and memory is watched by ASan and UBSan
    python build_backend/oblong_build.py sanitize -m pytest tests/native    Python with the latter
    python build_backend/oblong_build.py requirements       what these need from PyPI
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "oblong" / "_native"

# What CMake is told for each kind of build in the source tree.
KINDS = {
    "native": ["-DOBLONG_VARIANTS=native"],
    "all": ["-DOBLONG_VARIANTS=all"],
    "checked": ["-DOBLONG_VARIANTS=native", "-DOBLONG_MODULE=checked", "-DOBLONG_CHECKED=ON"],
    "sanitized": [
        "-DOBLONG_VARIANTS=native",
        "-DOBLONG_MODULE=sanitized",
        "-DOBLONG_CHECKED=ON",
        "-DOBLONG_SANITIZE=address,undefined",
    ],
    "coverage": [
        "-DOBLONG_VARIANTS=native",
        "-DOBLONG_MODULE=coverage",
        "-DOBLONG_COVERAGE=ON",
    ],
}


# --------------------------------------------------------------------------------------------------
# The compiler


def has_compiler() -> bool:
    """Whether a compiler for C++20 is found; on Windows, CMake looks for one."""
    if "CXX" in os.environ or os.name == "nt" or sys.platform == "emscripten":
        return True
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "test.cpp")
        source.write_text("#include <concepts>\nint main() { return !std::integral<int>; }\n")
        for name in ("c++", "g++", "clang++"):
            if path := shutil.which(name):
                command = [path, "-std=c++20", str(source), "-o", str(Path(folder, "test"))]
                if subprocess.run(command, capture_output=True).returncode == 0:
                    return True
    return False


def choose_compiler(folder: Path) -> None:
    """Take the compiler of the package ziglang, if there is no other, by scripts in the folder."""
    if has_compiler() or find_spec("ziglang") is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Left alone, zig compiles for the processor that it runs on.
    for tool, option in (("c++", "-mcpu=baseline"), ("ar", ""), ("ranlib", "")):
        script = folder / f"zig-{tool}"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {tool} {option} "$@"\n')
        script.chmod(0o755)
    os.environ["CXX"] = str(folder / "zig-c++")
    os.environ["CMAKE_ARGS"] = " ".join(
        [
            os.environ.get("CMAKE_ARGS", ""),
            f"-DCMAKE_AR={folder / 'zig-ar'} -DCMAKE_RANLIB={folder / 'zig-ranlib'}",
        ]
    ).strip()


def _requirements(found: list[str]) -> list[str]:
    return found if has_compiler() else [*found, "ziglang>=0.13"]


# --------------------------------------------------------------------------------------------------
# Builds in the source tree


def build_in_place(kind: str = "native") -> None:
    """Compile what is not up to date and put the modules and their types into `oblong/_native`."""
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    folder = ROOT / "build" / f"{kind}-{abi}"
    choose_compiler(folder / "compiler")
    cmake = _tool("cmake")
    configure = [cmake, "-S", str(ROOT), "-B", str(folder), "-DOBLONG_IN_PLACE=ON", *KINDS[kind]]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    if os.name == "nt":
        # Visual Studio, with its clang.
        configure += ["-T", os.environ.get("CMAKE_GENERATOR_TOOLSET", "ClangCL")]
    else:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    _run([*configure, *os.environ.get("CMAKE_ARGS", "").split()])
    _run([cmake, "--build", str(folder), "--config", "Release"])
    if kind in ("native", "all"):
        if (commands := folder / "compile_commands.json").exists():
            shutil.copy(commands, ROOT / "build")
        _run([sys.executable, str(ROOT / "build_backend" / "stubs.py"), str(PACKAGE)])


def _missing_tools() -> list[str]:
    """Programs that a build in the source tree needs, by their names on PyPI."""
    return [f"{name}>=1.11" for name in ("cmake", "ninja") if shutil.which(name) is None]


def _tool(name: str) -> str:
    """The program, from the environment of this Python or from the path."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    if path := beside or shutil.which(name):
        return path
    sys.exit(f"{name} was not found; install it: {sys.executable} -m pip install {name}")


def _run(command: list[str]) -> None:
    """Run a command; what it says is shown only if it fails."""
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if found.returncode:
        print(found.stdout, file=sys.stderr)
        raise SystemExit(f"failed: {' '.join(command)}")


# --------------------------------------------------------------------------------------------------
# The hooks of PEP 517 and 660


def _backend() -> Any:
    from scikit_build_core import build

    return build


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Cmake and ninja where they are missing, and a compiler."""
    return _requirements(_backend().get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """As for a wheel; the build in the source tree uses ninja in any case."""
    found = get_requires_for_build_wheel(config_settings)
    asked = " ".join(found)
    return [*found, *(tool for tool in _missing_tools() if tool.split(">")[0] not in asked)]


def get_requires_for_build_sdist(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Nothing but the backend."""
    return _backend().get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(*args: Any, **options: Any) -> str:
    """The metadata, without compiling."""
    return _backend().prepare_metadata_for_build_wheel(*args, **options)


def prepare_metadata_for_build_editable(*args: Any, **options: Any) -> str:
    """The metadata, without compiling."""
    return _backend().prepare_metadata_for_build_wheel(*args, **options)


def build_sdist(*args: Any, **options: Any) -> str:
    """The source distribution."""
    return _backend().build_sdist(*args, **options)


def build_wheel(*args: Any, **options: Any) -> str:
    """A wheel with a module for every set of instructions."""
    with tempfile.TemporaryDirectory() as folder:
        choose_compiler(Path(folder))
        return _backend().build_wheel(*args, **options)


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel that adds the source tree to the path, after building the core inside it.

    Nothing but the order of the path then decides which of several trees is imported.
    """
    build_in_place()
    with tempfile.TemporaryDirectory() as folder:
        info = prepare_metadata_for_build_editable(folder, config_settings)
        files = {
            f"{info}/{path.relative_to(Path(folder, info)).as_posix()}": path.read_bytes()
            for path in Path(folder, info).rglob("*")
            if path.is_file() and path.name not in ("WHEEL", "RECORD")
        }
    name = info.removesuffix(".dist-info")
    files["_oblong_editable.pth"] = f"{ROOT}\n".encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: oblong_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(
        f"{file},sha256={urlsafe_b64encode(sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for file, data in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return wheel


def sanitize(arguments: list[str]) -> None:
    """Run Python with the sanitized core; where the compiler has no sanitizers, say so."""
    libraries = []
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    for name in ("libasan.so", "libubsan.so") if compiler and sys.platform == "linux" else ():
        command = [*str(compiler).split(), f"-print-file-name={name}"]
        found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        # The bare name, where there is none.
        libraries += [found] if Path(found).is_absolute() else []
    if len(libraries) < 2:
        print("skipped: no GCC with sanitizers was found")
        return
    build_in_place("sanitized")
    # Python frees little at its end.
    watch = "detect_leaks=0:halt_on_error=1"
    os.environ.update(
        OBLONG_VARIANT="sanitized", LD_PRELOAD=" ".join(libraries), ASAN_OPTIONS=watch
    )
    os.execv(sys.executable, [sys.executable, *arguments])


def requirements() -> list[str]:
    """All that a build in the source tree needs in the environment of this Python."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["build-system"]["requires"]
    return _requirements([*found, *_missing_tools()])


if __name__ == "__main__":
    if sys.argv[1:] == ["requirements"]:
        print(*requirements())
        sys.exit()
    if sys.argv[1:2] == ["sanitize"]:
        sanitize(sys.argv[2:])
        sys.exit()
    for kind in sys.argv[1:] or ["native"]:
        if kind not in KINDS:
            sys.exit(f"there is no build {kind!r}, but {', '.join(KINDS)}")
        build_in_place(kind)
