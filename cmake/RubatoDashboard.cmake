# The dashboard (web/) becomes a part of rubatod: npm builds it, and its files become arrays in
# dashboard_files.cpp (src/api/dashboard.h). Without Node or npm, or where npm reaches no registry,
# there are no files; rubatod then serves the API only and says so.
option(RUBATO_DASHBOARD "Build the dashboard into rubatod if npm is there" ON)

find_program(RUBATO_NODE node)
find_program(RUBATO_NPM npm)
set(dashboard_files "${CMAKE_BINARY_DIR}/dashboard_files.cpp")
if(RUBATO_DASHBOARD AND RUBATO_NODE AND RUBATO_NPM)
  file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/web/src/*"
    "${CMAKE_SOURCE_DIR}/web/public/*")
  foreach(name index.html package.json package-lock.json tsconfig.json vite.config.ts embed.mjs .npmrc)
    list(APPEND web_sources "${CMAKE_SOURCE_DIR}/web/${name}")
  endforeach()
  add_custom_command(OUTPUT "${dashboard_files}"
    COMMAND "${CMAKE_SOURCE_DIR}/scripts/build-dashboard" "${CMAKE_BINARY_DIR}/web" "${dashboard_files}"
    DEPENDS ${web_sources} "${CMAKE_SOURCE_DIR}/scripts/build-dashboard"
    COMMENT "Building the dashboard")
else()
  set(dashboard_files "${CMAKE_BINARY_DIR}/no_dashboard_files.cpp")
  file(CONFIGURE OUTPUT "${dashboard_files}" CONTENT [[
#include "api/dashboard.h"
std::span<const rubato::api::DashboardFile> rubato::api::dashboard_files() { return {}; }
]])
endif()
target_sources(rubato_api PRIVATE "${dashboard_files}")
set_source_files_properties("${dashboard_files}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
