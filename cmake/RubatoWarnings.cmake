# rubato_warnings: link it (PRIVATE) to each of our own targets, never to third-party code.
add_library(rubato_warnings INTERFACE)
target_compile_options(rubato_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  -Wno-missing-field-initializers # designated initializers list what differs from the defaults
  # Only clang checks lock annotations.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${RUBATO_WERROR}>:-Werror>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC mistakes the value of an empty std::optional for an uninitialized variable (GCC bug 80635),
  # even more so with sanitizers. clang and clang-tidy find uninitialized variables without that.
  target_compile_options(rubato_warnings INTERFACE -Wno-maybe-uninitialized)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 wrongly reports overlapping copies inside std::string (GCC bug 105651).
    target_compile_options(rubato_warnings INTERFACE -Wno-restrict)
  endif()
endif()
