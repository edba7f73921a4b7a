# Applies RUBATO_SANITIZE to everything that this project compiles and links.
if(RUBATO_SANITIZE STREQUAL "address")
  set(rubato_sanitizers address,undefined)
elseif(RUBATO_SANITIZE STREQUAL "thread")
  set(rubato_sanitizers thread)
elseif(RUBATO_SANITIZE)
  message(FATAL_ERROR "RUBATO_SANITIZE is '${RUBATO_SANITIZE}'; use address, thread or nothing")
endif()

if(RUBATO_SANITIZE)
  # Without no-sanitize-recover, undefined behaviour prints a line and the test still passes.
  add_compile_options(-fsanitize=${rubato_sanitizers} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${rubato_sanitizers})
endif()

if(RUBATO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RUBATO_FUZZ needs clang; use: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
