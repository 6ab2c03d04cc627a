#!/usr/bin/env bash
# Builds dist/adaste_runtime.wasm, the programs that check it, and the demonstration in build/demo:
#     web/build.sh PYTHON
# PYTHON is a Python with cmake and ninja beside it. Needs node and npm; brings zig (from PyPI) and binaryen (from npm)
# into build/tools, for this folder alone. Ends with 3 where these cannot be fetched.
set -euo pipefail
python=$(realpath -s "${1:?usage: build.sh PYTHON}")
cd "$(dirname "$0")"
zig_version=0.17.0 binaryen_version=132.0.0
tools=$PWD/build/tools
command -v npm >/dev/null || { echo "the runtime for web pages needs node and npm (version 20 or later)" >&2; exit 1; }
mkdir -p "$tools" dist

if [ "$(cat "$tools/versions" 2>/dev/null)" != "$zig_version $binaryen_version" ]; then
  echo "fetching zig $zig_version and binaryen $binaryen_version (500 MB on disk)"
  "$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$tools/python" "ziglang==$zig_version" &&
    npm install --silent --no-audit --no-fund --no-save --prefix "$tools" "binaryen@$binaryen_version" ||
    { echo "zig or binaryen could not be fetched: the runtime for web pages is not built" >&2; exit 3; }
  echo "$zig_version $binaryen_version" >"$tools/versions"
fi

export ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache ZIG_LOCAL_CACHE_DIR=$tools/zig-cache
PATH=$(dirname "$python"):$PATH
cmake -S . -B build/wasm -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DZIG="$tools/python/ziglang/zig" \
  -Wno-unused-cli >/dev/null
cmake --build build/wasm -- -j 2 --quiet

# The features are those of every browser of today and node 20; with all of binaryen's none of these would load it.
features=(simd bulk-memory nontrapping-float-to-int sign-ext mutable-globals multivalue reference-types exception-handling)
"$tools/node_modules/.bin/wasm-opt" -O3 --converge "${features[@]/#/--enable-}" --strip-producers --strip-target-features \
  build/wasm/adaste_runtime.wasm -o dist/adaste_runtime.wasm

rm -rf build/demo
mkdir -p build/demo/adaste-runtime-web
cp -r demo/. build/demo
cp -r src dist build/demo/adaste-runtime-web
"$python" networks.py build/demo
echo "dist/adaste_runtime.wasm: $(stat -c %s dist/adaste_runtime.wasm) bytes, gzipped $(gzip -9c dist/adaste_runtime.wasm | wc -c)"
