#!/usr/bin/env bash
# Packs what benchmarks/inference.py needs on a machine where nothing can be installed (Linux on x86-64 with numpy and
# onnxruntime) into the folder carry/, which git ignores:
#     benchmarks/carry.sh [PYTHON = .venv/bin/python]
# There, with nothing but that folder:
#     ADASTE_RUNTIME_LIBRARY=$PWD/carry/libadaste_runtime.so python carry/inference.py --carried carry --no-starts
#     carry/profile carry/224.safetensors 16     # where the time goes on 16 threads (runtime/benchmarks/profile.cpp)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
PATH=$(dirname "$python"):$PATH
static="-static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--gc-sections"
mkdir -p carry build
cmake -S runtime -B build/carry -DADASTE_PYTHON=OFF -DCMAKE_SHARED_LINKER_FLAGS="$static" >/dev/null
cmake --build build/carry --parallel 2 >/dev/null
cmake -S runtime -B build/carry-profile -DADASTE_PYTHON=OFF -DADASTE_PROFILE=ON -DCMAKE_EXE_LINKER_FLAGS="$static" >/dev/null
cmake --build build/carry-profile --parallel 2 >/dev/null
cp build/carry/libadaste_runtime.so build/carry-profile/profile benchmarks/{inference,engines,start}.py carry
strip carry/libadaste_runtime.so carry/profile
if [ ! -e carry/224.npy.gz ]; then
  networks=$(mktemp -d)
  trap 'rm -rf "$networks"' EXIT
  "$python" benchmarks/inference.py --prepare "$networks"
  cp "$networks"/*.safetensors carry
  gzip "$networks"/*
  cp "$networks"/*.gz carry
fi
newest() { objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -V | tail -1; }
echo "carry/: $(du -sh carry | cut -f1); the library needs $(newest carry/libadaste_runtime.so), the profile $(newest carry/profile)"
