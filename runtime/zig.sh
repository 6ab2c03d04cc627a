#!/usr/bin/env bash
# Prints the path of zig, which compiles for other systems, and brings it into build/tools first where it is missing:
#     runtime/zig.sh PYTHON        PYTHON has pip
set -euo pipefail
version=0.17.0
tools=$(realpath "$(dirname "$0")")/build/tools/zig-$version
[ -e "$tools/ziglang/zig" ] ||
  "${1:?usage: zig.sh PYTHON}" -m pip install --quiet --disable-pip-version-check --target "$tools" "ziglang==$version" >&2
echo "$tools/ziglang/zig"
