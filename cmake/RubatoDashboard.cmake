# The dashboard (web/) becomes a part of rubatod, and its components a part of report.html, which rubato
# writes: npm builds both, and their files become arrays in dashboard_files.cpp (src/api/dashboard.h) and
# report_bundle.cpp (src/sim/report_bundle.h). Without Node or npm, or where npm reaches no registry,
# there are no files; rubatod then serves the API only, report.html has a table only, and both say so.
option(RUBATO_DASHBOARD "Build the dashboard into rubatod if npm is there" ON)

find_program(RUBATO_NODE node)
find_program(RUBATO_NPM npm)
set(no_dashboard "${CMAKE_BINARY_DIR}/no_dashboard_files.cpp")
file(CONFIGURE OUTPUT "${no_dashboard}" CONTENT [[
#include "api/dashboard.h"
std::span<const rubato::api::DashboardFile> rubato::api::dashboard_files() { return {}; }
]])
set(no_report "${CMAKE_BINARY_DIR}/no_report_bundle.cpp")
file(CONFIGURE OUTPUT "${no_report}" CONTENT [[
#include "sim/report_bundle.h"
rubato::ReportBundle rubato::report_bundle() { return {}; }
]])
if(RUBATO_DASHBOARD AND RUBATO_NODE AND RUBATO_NPM)
  set(dashboard_files "${CMAKE_BINARY_DIR}/dashboard_files.cpp")
  set(report_files "${CMAKE_BINARY_DIR}/report_bundle.cpp")
  file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/web/src/*"
    "${CMAKE_SOURCE_DIR}/web/public/*")
  foreach(name index.html package.json package-lock.json tsconfig.json vite.config.ts
      vite.report.config.ts embed.mjs .npmrc)
    list(APPEND web_sources "${CMAKE_SOURCE_DIR}/web/${name}")
  endforeach()
  add_custom_command(OUTPUT "${dashboard_files}" "${report_files}"
    COMMAND "${CMAKE_SOURCE_DIR}/scripts/build-dashboard" "${CMAKE_BINARY_DIR}/web"
      "${dashboard_files}" "${report_files}" "${no_dashboard}" "${no_report}"
    DEPENDS ${web_sources} "${CMAKE_SOURCE_DIR}/scripts/build-dashboard"
    COMMENT "Building the dashboard")
  add_custom_target(web_files DEPENDS "${dashboard_files}" "${report_files}") # once, for both layers
  add_dependencies(rubato_sim web_files)
  add_dependencies(rubato_api web_files)
else()
  set(dashboard_files "${no_dashboard}")
  set(report_files "${no_report}")
endif()
target_sources(rubato_sim PRIVATE "${report_files}")
target_sources(rubato_api PRIVATE "${dashboard_files}")
set_source_files_properties("${report_files}" "${dashboard_files}" PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
