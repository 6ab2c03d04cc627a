# Compiles for another system with `zig c++` (ziglang on PyPI), which brings clang, lld, libc++ and the libraries of many
# systems, glibc in every version among them. Variables: ZIG, its program; TARGET, as x86_64-linux-gnu.2.28.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG TARGET)
string(REGEX MATCH "^([a-z0-9_]+)-([a-z]+)" matched "${TARGET}")
set(systems_linux Linux)
set(systems_windows Windows)
set(systems_macos Darwin)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(CMAKE_SYSTEM_NAME ${systems_${CMAKE_MATCH_2}})
set(CMAKE_AR "${ZIG}")
set(CMAKE_RANLIB "${ZIG}")
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET ${TARGET})
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_AR> ranlib <TARGET>")
endforeach()
set(CMAKE_C_COMPILER "${ZIG}" cc)
set(CMAKE_CXX_COMPILER "${ZIG}" c++)
# What is looked for by name is Python and nanobind, whose headers serve every system: look where this system has them.
