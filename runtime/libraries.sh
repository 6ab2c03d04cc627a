#!/usr/bin/env bash
# Compiles the C library and its example for systems that are not here, with zig:
#     runtime/libraries.sh PYTHON FOLDER [TARGET = {x86_64,aarch64}-{windows-gnu,macos,linux-gnu.2.28}]...
# PYTHON has pip, cmake and ninja. FOLDER/TARGET is then what `cmake --install` makes, and the program bin/classify.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:?usage: libraries.sh PYTHON FOLDER [TARGET]...}")")
mkdir -p "${2:?usage: libraries.sh PYTHON FOLDER [TARGET]...}"
folder=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- {x86_64,aarch64}-{windows-gnu,macos,linux-gnu.2.28}
cd "$(dirname "$0")"
zig=$(./zig.sh "$python")
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/tools/zig-cache}
export ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
PATH=$(dirname "$python"):$PATH

for target in "$@"; do
  compiler=(-G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DZIG="$zig" -DTARGET="$target")
  cmake -S . -B "build/$target" "${compiler[@]}" -DCMAKE_INSTALL_PREFIX="$folder/$target" \
    -DCMAKE_INSTALL_MESSAGE=NEVER >/dev/null
  cmake --build "build/$target" --target install -- --quiet
  for library in shared static; do
    rm -rf "build/$target/$library"  # it would find the library where it was installed before
    cmake -S examples -B "build/$target/$library" "${compiler[@]}" -DLIBRARY=$library \
      -DCMAKE_PREFIX_PATH="$folder/$target" -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "build/$target/$library" -- --quiet
  done
  mkdir -p "$folder/$target/bin"
  cp "build/$target/static"/classify* "$folder/$target/bin"
done
