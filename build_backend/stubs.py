"""Write the types of the compiled families for mypy: `oblong/_native/<family>.pyi`."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from nanobind.stubgen import StubGen


def load(path: Path, name: str) -> ModuleType:
    """The extension module in a file, without the package that it belongs to."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(folder: Path) -> None:
    """Write the stubs of the modules which were built for this Python and this machine."""
    suffixes = importlib.machinery.EXTENSION_SUFFIXES

    def built(name: str) -> Path:
        return next(p for p in (folder / f"{name}{s}" for s in suffixes) if p.exists())

    level = load(built("_cpu"), "_cpu").level()
    core = load(built(f"_{level}"), f"_{level}")
    for name, family in vars(core).items():
        if isinstance(family, ModuleType):
            generator = StubGen(family)
            generator.put(family)
            path, text = folder / f"{name}.pyi", generator.get()
            # Mypy reads again what is newer.
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
