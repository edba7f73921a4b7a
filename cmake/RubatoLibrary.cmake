# librubato.so: the training runtime behind the C interface of include/rubato/rubato.h. Programs load it
# next to any libstdc++ and any libfmt, so it brings its own (capi/own_fmt.cpp) and shows only the
# functions of the header.
#
# build/python holds the Python package as it is used from the build tree.
foreach(layer base elastic)
  set_target_properties(rubato_${layer} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endforeach()
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/include/capi")
file(CREATE_LINK "${CMAKE_SOURCE_DIR}/src/capi" "${CMAKE_BINARY_DIR}/include/capi/capi" SYMBOLIC)
file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/capi/*.cpp")
cmake_path(GET CMAKE_BINARY_DIR PARENT_PATH build_folder)
set(RUBATO_PYTHON_DIR "${build_folder}/python")
add_library(rubato_c SHARED ${sources})
set_target_properties(rubato_c PROPERTIES
  OUTPUT_NAME rubato
  CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${RUBATO_PYTHON_DIR}/rubato")
target_include_directories(rubato_c PUBLIC "${CMAKE_SOURCE_DIR}/include"
  PRIVATE "${CMAKE_BINARY_DIR}/include/capi")
target_link_libraries(rubato_c PRIVATE rubato_elastic rubato_warnings)
target_compile_definitions(rubato_c PRIVATE RUBATO_VERSION="${PROJECT_VERSION}")
target_link_options(rubato_c PRIVATE
  -static-libstdc++ -static-libgcc LINKER:--as-needed,--no-undefined
  "LINKER:--version-script=${CMAKE_SOURCE_DIR}/src/capi/exports.map")
set_property(TARGET rubato_c APPEND PROPERTY LINK_DEPENDS "${CMAKE_SOURCE_DIR}/src/capi/exports.map")

file(MAKE_DIRECTORY "${RUBATO_PYTHON_DIR}/rubato")
file(GLOB RUBATO_PYTHON_MODULES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/python/rubato/*.py")
foreach(module IN LISTS RUBATO_PYTHON_MODULES)
  cmake_path(GET module FILENAME name)
  file(CREATE_LINK "${module}" "${RUBATO_PYTHON_DIR}/rubato/${name}" SYMBOLIC)
endforeach()
