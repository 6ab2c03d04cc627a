#!/bin/sh
# Checks the NEON kernels: as they are on an ARM processor, elsewhere cross-compiled and run by qemu, with
# AddressSanitizer and UndefinedBehaviorSanitizer. Less than a minute.
#     tests/check_neon.sh [shapes = 1500] [seed = 1]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../src
kernels=$source/kernels/arm
flags="-std=c++17 -Wall -Wextra -ffp-contract=off -O1"
export ASAN_OPTIONS=detect_leaks=0  # not possible under an emulator

if [ "$(uname -m)" = aarch64 ]; then
  compiler=${CXX:-g++}
  emulator=
else
  compiler=${AARCH64_CXX:-aarch64-linux-gnu-g++}
  emulator="${QEMU_AARCH64:-qemu-aarch64} -cpu max -L ${AARCH64_ROOT:-/usr/aarch64-linux-gnu}"
fi
for tool in "$compiler" ${emulator%% *}; do
  command -v "$tool" >/dev/null ||
    { echo "skipped: $tool is missing (Debian packages g++-aarch64-linux-gnu and qemu-user)"; exit 0; }
done

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# Some emulators cannot run AddressSanitizer; guard zones around the arrays still notice stray writes then.
sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=all"
echo 'int main() {}' >"$build/probe.cpp"
{ "$compiler" $sanitizers "$build/probe.cpp" -o "$build/probe" && $emulator "$build/probe"; } 2>/dev/null ||
  { echo "without sanitizers: they do not run here"; sanitizers=-static; }

"$compiler" $flags "-I$source" $sanitizers -c "$kernels/neon.cpp" -o "$build/neon.o" & first=$!
"$compiler" $flags "-I$source" $sanitizers -march=armv8.2-a+dotprod -c "$kernels/neon_dot.cpp" -o "$build/neon_dot.o"
"$compiler" $flags "-I$source" $sanitizers -c "$kernels/neon_depthwise.cpp" -o "$build/neon_depthwise.o"
wait $first
"$compiler" $flags "-I$source" $sanitizers "$here/kernels_check.cpp" "$build"/neon*.o -o "$build/check"
$emulator "$build/check" "${1:-1500}" "${2:-1}"
