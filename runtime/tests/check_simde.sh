#!/bin/sh
# Checks the AVX-512 and AMX kernels on any processor: their instructions emulated by SIMDe and src/testing, with
# AddressSanitizer and UndefinedBehaviorSanitizer. Where this processor has AVX-512, also as they are. About a minute.
#     tests/check_simde.sh [shapes = 1500] [seed = 1]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../src
kernels=$source/kernels/x86/avx512
compiler=${CXX:-g++}
flags="-std=c++17 -Wall -Wextra -Wno-psabi -ffp-contract=off"

command -v "$compiler" >/dev/null || { echo "skipped: no C++ compiler ($compiler)"; exit 0; }
echo '#include <simde/x86/avx512.h>' | "$compiler" -x c++ -fsyntax-only - 2>/dev/null ||
  { echo "skipped: SIMDe is missing (Debian package libsimde-dev)"; exit 0; }

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# compile NAME FILE FLAGS...: two run at a time; each is waited for by itself, so that its failure ends the script.
compile() { object=$build/$1.o; file=$2; shift 2; "$compiler" $flags "-I$source" "$@" -c "$file" -o "$object"; }

emulated="-O1 -DADASTE_SIMDE -fsanitize=address,undefined -fno-sanitize-recover=all"
compile avx512 "$kernels/lookup.cpp" $emulated & first=$!
compile depthwise "$kernels/depthwise.cpp" $emulated
compile lookup_int8 "$kernels/lookup_int8.cpp" $emulated
compile vnni "$kernels/vnni.cpp" $emulated & second=$!
wait $first
compile amx "$kernels/amx.cpp" $emulated & first=$!
wait $second
compile check "$here/kernels_check.cpp" $emulated
wait $first
"$compiler" $emulated "$build"/*.o -o "$build/emulated"
echo "emulated, with sanitizers:"
"$build/emulated" "${1:-1500}" "${2:-1}"

if [ "$(uname -m)" = x86_64 ]; then
  # Without the emulation: that each file needs no more than its own flags, and that the processor agrees.
  grep -qs avx512f /proc/cpuinfo && level=-O2 || level=-O0
  compile depthwise "$kernels/depthwise.cpp" $level -mavx512f
  compile avx512 "$kernels/lookup.cpp" $level -mavx512f
  compile lookup_int8 "$kernels/lookup_int8.cpp" $level -mavx512f -mavx512bw -mavx512vnni
  compile vnni "$kernels/vnni.cpp" $level -mavx512f -mavx512bw -mavx512vnni
  compile amx "$kernels/amx.cpp" $level -mavx512f -mavx512bw -mamx-tile -mamx-int8
  compile check "$here/kernels_check.cpp" $level
  "$compiler" "$build"/*.o -o "$build/native"
  if [ $level = -O2 ]; then
    echo "on this processor:"
    "$build/native" "${1:-1500}" "${2:-1}"
  else
    echo "on this processor: built, not run (it has no AVX-512)"
  fi
fi
