#!/usr/bin/env bash
# Builds the fuzzers with AddressSanitizer and UndefinedBehaviorSanitizer and runs them:
#     runtime/fuzz/run.sh COUNT [FIRST_SEED [SANITIZERS = address,undefined]]
# COUNT mutated files, a tenth as many random shapes for every kernel, a hundredth as many networks with many callers
# each, a tenth as many with mutated calls of the C interface, and a tenth as many teams of threads. Allocations beyond
# 256 MB are failures too.
# With `thread` for SANITIZERS it is ThreadSanitizer that looks on, and no allocation is too large.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:?usage: run.sh COUNT [FIRST_SEED [SANITIZERS]]}
first=${2:-0}
sanitizers=${3:-address,undefined}
build=build/fuzz-$sanitizers
cmake -S . -B "$build" -DADASTE_PYTHON=OFF -DADASTE_FUZZ=ON -DADASTE_SANITIZE="$sanitizers" \
  -DCMAKE_CXX_FLAGS_RELEASE=-O1 "${CMAKE_ARGS:--DCMAKE_BUILD_TYPE=Release}" >/dev/null
cmake --build "$build" --parallel 2 >/dev/null
export ASAN_OPTIONS=max_allocation_size_mb=256:allocator_may_return_null=0:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
"$build/fuzz_files" "$count" "$first"
"$build/fuzz_kernels" $((count / 10)) "$first"
"$build/fuzz_callers" $((count / 100)) "$first"
"$build/fuzz_tensors" $((count / 10)) "$first"
"$build/fuzz_workers" $((count / 10)) "$first"
