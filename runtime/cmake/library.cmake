# The C library adaste_runtime, shared and static, and what is installed with it: the header, the CMake package and the
# file for pkg-config.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(adaste_shared SHARED src/api/c.cpp src/api/tensors.cpp)
target_link_libraries(adaste_shared PRIVATE adaste_core)
set_target_properties(adaste_shared PROPERTIES
  OUTPUT_NAME adaste_runtime EXPORT_NAME shared VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_compile_definitions(adaste_shared PRIVATE ADASTE_BUILDS_DLL)

add_library(adaste_static STATIC src/api/c.cpp src/api/tensors.cpp $<TARGET_OBJECTS:adaste_core>)
set_target_properties(adaste_static PROPERTIES EXPORT_NAME static)
if(NOT WIN32)  # where the shared library has a file libadaste_runtime.a or adaste_runtime.lib as well
  set_target_properties(adaste_static PROPERTIES OUTPUT_NAME adaste_runtime)
endif()
target_include_directories(adaste_static PRIVATE src)
target_link_libraries(adaste_static PUBLIC Threads::Threads)

foreach(library adaste_shared adaste_static)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
add_library(adaste::shared ALIAS adaste_shared)  # the names of the package, for those who add_subdirectory this one
add_library(adaste::static ALIAS adaste_static)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/adaste_runtime)
install(TARGETS adaste_shared adaste_static EXPORT adaste_runtime
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/adaste_runtime.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT adaste_runtime NAMESPACE adaste:: FILE adaste_runtime-targets.cmake DESTINATION ${package})

configure_package_config_file(cmake/adaste_runtime-config.cmake.in adaste_runtime-config.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(adaste_runtime-config-version.cmake COMPATIBILITY SameMajorVersion)

# What a program in C has to link besides the static library: the compiler's library of C++.
set(private_libraries ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER private_libraries INCLUDE REGEX "^(c\\+\\+|stdc\\+\\+|m)$")
list(TRANSFORM private_libraries PREPEND -l)
list(APPEND private_libraries ${CMAKE_THREAD_LIBS_INIT})
string(REPLACE ";" " " private_libraries "${private_libraries}")
# The place of the file leads to the others, so that an installation can be moved.
file(RELATIVE_PATH prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/adaste_runtime.pc.in adaste_runtime.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/adaste_runtime.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/adaste_runtime-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/adaste_runtime-config-version.cmake
  DESTINATION ${package})
