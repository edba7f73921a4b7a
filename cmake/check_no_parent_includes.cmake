# cmake -DSOURCE_DIR=... -P check_no_parent_includes.cmake
#
# #include "../sched/x.h" would bypass the layers' include roots, so it is not allowed in src/.
file(GLOB_RECURSE files "${SOURCE_DIR}/src/*.h" "${SOURCE_DIR}/src/*.cpp")
foreach(file IN LISTS files)
  file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]+[\"<][^\">]*\\.\\./")
  foreach(line IN LISTS lines)
    message(SEND_ERROR "${file}: ${line}\nwrite \"<layer>/<file>.h\" instead")
  endforeach()
endforeach()
