"""Make what compiling a module for Windows' Python needs of this Python, which is for another system, with zig.

    python windows_python.py ZIG FOLDER

FOLDER/include gets the headers of this Python with the configuration of Windows', and FOLDER/libpythonXY.a links to
its library: to python3.dll for the stable interface, from 3.12 on, and to python311.dll for 3.11.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CONFIGURATION = """\
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED
#define ALIGNOF_MAX_ALIGN_T 8
#define ALIGNOF_SIZE_T 8
#define SIZEOF_DOUBLE 8
#define SIZEOF_FLOAT 4
#define SIZEOF_FPOS_T 8
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_PID_T 8
#define SIZEOF_SHORT 2
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2
"""
"""The macros of pyconfig.h for Windows with 64 bits that the headers ask for."""

HEADERS = "".join(f"#include <{name}.h>\n" for name in ("Python", "frameobject", "structmember"))

IMPORTED = r"__attribute__\(\(dllimport\)\)[^;({]*?\b(_?Py\w+)\s*[(;\[]"
"""A declaration of something that Python's library has."""


def main(zig: str, folder: Path) -> None:
    """Write the headers and the library."""
    include = folder / "include"
    shutil.copytree(sysconfig.get_path("include"), include)
    (include / "pyconfig.h").write_text(CONFIGURATION)
    number = "{}{}".format(*sys.version_info)
    dll, interface = ("python3", ["-DPy_LIMITED_API=0x030C0000"]) if number >= "312" else (f"python{number}", [])
    preprocess = [zig, "c++", "-target", "x86_64-windows-gnu", f"-I{include}", *interface, "-E", "-x", "c++", "-"]
    declarations = subprocess.run(preprocess, input=HEADERS, stdout=subprocess.PIPE, text=True, check=True).stdout
    # More than the module imports does no harm: the library holds names.
    names = sorted(set(re.findall(IMPORTED, declarations)))
    definition = folder / f"{dll}.def"
    definition.write_text("\n".join([f"LIBRARY {dll}.dll", "EXPORTS", *names, ""]))
    library = folder / f"libpython{number}.a"  # CMake reads the version in the name
    subprocess.run([zig, "dlltool", "-m", "i386:x86-64", "-d", definition, "-l", library], check=True)
    for name in {
        dll,
        f"python{number}",
    }:  # beside them CMake takes the library for one that imports, and never reads them
        (folder / f"{name}.dll").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
