# rubato_layer(<name> [DEPS <layer>...] [LIBS <target>...])
#
# Creates the static library rubato_<name> from src/<name>/*.cpp and src/<name>/*/*.cpp. DEPS are
# lower layers by short name, LIBS are third-party targets; both are passed on to targets that link
# the layer.
#
# Headers are included as "<layer>/<file>.h", but src/ itself is on no include path. Each layer has
# its own include root in the build folder, which holds a single symbolic link,
#   <build>/include/<name>/<name> -> src/<name>
# so a layer sees its own headers and those of the layers it links (transitively). Including a header
# of any other layer is a compile error; the test layering/model_cannot_include_sched proves it.
function(rubato_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rubato_layer(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(include_root "${CMAKE_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${include_root}")
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/src/${name}" "${include_root}/${name}" SYMBOLIC)

  file(GLOB sources CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/src/${name}/*.cpp" "${CMAKE_SOURCE_DIR}/src/${name}/*/*.cpp")
  if(NOT sources) # a static library needs a source, even if the layer has only headers
    set(sources "${CMAKE_BINARY_DIR}/include/${name}_has_no_sources.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "") # unlike WRITE, keeps the time of an unchanged file
  endif()

  add_library(rubato_${name} STATIC ${sources})
  target_include_directories(rubato_${name} PUBLIC "${include_root}")
  target_link_libraries(rubato_${name} PRIVATE rubato_warnings)
  foreach(dep IN LISTS arg_DEPS)
    if(NOT TARGET rubato_${dep}) # also rules out cycles: a layer can only use earlier ones
      message(FATAL_ERROR "rubato_layer(${name}): layer '${dep}' is not declared before it")
    endif()
    target_link_libraries(rubato_${name} PUBLIC rubato_${dep})
  endforeach()
  target_link_libraries(rubato_${name} PUBLIC ${arg_LIBS})
endfunction()
