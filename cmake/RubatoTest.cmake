# rubato_test(<name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [COST <seconds>] [PROCESSORS <n>]
#             [TOGETHER])
#
# Creates a googletest program and registers each of its cases with ctest as <group>/<Suite>.<Case>,
# where <group> is <name> without "_tests". Does nothing if SOURCES is empty. Test code includes
# shared helpers relative to tests/. ctest starts cases of a higher COST first, so that no long one is
# left over at the end. A case that keeps several cores busy says so with PROCESSORS. TOGETHER runs all cases
# in one process, as <group>/cases: for a program that takes longer to load than to test. test_paths.h says
# where the source tree and the programs are.
function(rubato_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TOGETHER" "COST;PROCESSORS" "SOURCES;LIBS;LABELS")
  if(NOT arg_SOURCES)
    return()
  endif()
  if(NOT arg_COST)
    set(arg_COST 0)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  string(REGEX REPLACE "_tests$" "" group "${name}")

  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} rubato_test_paths GTest::gtest_main rubato_warnings)
  # Test code itself computes little; optimising it took a third of its compilation.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(arg_TOGETHER)
    add_test(NAME ${group}/cases COMMAND ${name})
    set_tests_properties(${group}/cases PROPERTIES LABELS "${arg_LABELS}" COST ${arg_COST} PROCESSORS ${arg_PROCESSORS})
    return()
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${group}/" DISCOVERY_TIMEOUT 600)
  # gtest_discover_tests(PROPERTIES) keeps only the first of several labels, so ctest sets them
  # itself when it loads the list of cases (<name>_TESTS, empty before the first build).
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
if(@name@_TESTS)
  set_tests_properties(${@name@_TESTS} PROPERTIES LABELS "@arg_LABELS@" COST @arg_COST@
    PROCESSORS @arg_PROCESSORS@)
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()

configure_file("${CMAKE_SOURCE_DIR}/tests/test_paths.cpp.in" "${CMAKE_BINARY_DIR}/test_paths.cpp" @ONLY)
add_library(rubato_test_paths STATIC EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/test_paths.cpp")
target_include_directories(rubato_test_paths PUBLIC "${CMAKE_SOURCE_DIR}/tests")
