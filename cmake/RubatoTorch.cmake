# rubato_torch: LibTorch, from Debian (libtorch-dev) or from pip:
#   -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
find_package(Torch REQUIRED)
set(RUBATO_TRAIN ON)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND Torch_VERSION VERSION_LESS 2)
  # LibTorch's headers contain a std::vector of an incomplete type; clang 14 rejects it in C++20.
  message(STATUS "clang cannot compile LibTorch ${Torch_VERSION} as C++20: the layer train is left out")
  set(RUBATO_TRAIN OFF)
endif()
add_library(rubato_torch INTERFACE)
target_link_libraries(rubato_torch INTERFACE ${TORCH_LIBRARIES} ${CMAKE_DL_LIBS})
# pip's LibTorch specifies the ABI of its std::string.
separate_arguments(rubato_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(rubato_torch INTERFACE ${rubato_torch_flags})
if(TARGET torch_cuda)
  target_compile_definitions(rubato_torch INTERFACE RUBATO_TORCH_CUDA)
endif()

# fmt and nlohmann_json from a folder of headers, for machines without their packages.
function(rubato_header_libraries folder)
  foreach(header fmt/format.h nlohmann/json.hpp)
    if(NOT EXISTS "${folder}/${header}")
      message(FATAL_ERROR "RUBATO_HEADERS=${folder} has no ${header}; copy the folders fmt and "
                          "nlohmann there (Debian: /usr/include)")
    endif()
  endforeach()
  add_library(rubato_fmt INTERFACE)
  target_include_directories(rubato_fmt SYSTEM INTERFACE "${folder}")
  target_compile_definitions(rubato_fmt INTERFACE FMT_HEADER_ONLY=1)
  add_library(fmt::fmt ALIAS rubato_fmt)
  add_library(rubato_json INTERFACE)
  target_include_directories(rubato_json SYSTEM INTERFACE "${folder}")
  add_library(nlohmann_json::nlohmann_json ALIAS rubato_json)
endfunction()
