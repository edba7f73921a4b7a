# cmake -DCOMPILER=... -DINCLUDES=dir;dir -DHEADER=layer/file.h -DEXPECT=visible|hidden
#       -DSOURCE_DIR=... -P check_layering.cmake
#
# Compiles (syntax only) one line that includes HEADER with exactly the include path INCLUDES.
if(NOT EXISTS "${SOURCE_DIR}/src/${HEADER}")
  # Otherwise a renamed header would make the "hidden" test pass for the wrong reason.
  message(FATAL_ERROR "src/${HEADER} does not exist: name another header in tests/CMakeLists.txt")
endif()

list(TRANSFORM INCLUDES PREPEND "-I")
string(MAKE_C_IDENTIFIER "${EXPECT}_${HEADER}" name)
set(probe "${CMAKE_CURRENT_BINARY_DIR}/layering_${name}.cpp")
file(WRITE "${probe}" "#include \"${HEADER}\"\n")
execute_process(COMMAND "${COMPILER}" -std=c++20 -fsyntax-only ${INCLUDES} "${probe}"
                RESULT_VARIABLE result ERROR_VARIABLE errors)

if(EXPECT STREQUAL "visible")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${HEADER} should compile here but does not:\n${errors}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "${HEADER} compiles although its layer is not below this one")
elseif(NOT errors MATCHES "${HEADER}.*(No such file|file not found)")
  message(FATAL_ERROR "${HEADER} fails, but not because it is hidden:\n${errors}")
endif()
