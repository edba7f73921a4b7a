// The files of the dashboard (web/), which the build puts into the program
// (cmake/RubatoDashboard.cmake). None if it was built without Node.
#pragma once

#include <span>
#include <string_view>

namespace rubato::api {

struct DashboardFile {
  std::string_view name;  // "index.html", or a name that changes with the content
  std::string_view media;
  std::string_view bytes;  // compressed with gzip, but for the page itself
};

std::span<const DashboardFile> dashboard_files();
// Null if there is no such file.
const DashboardFile* dashboard_file(std::string_view name);

}  // namespace rubato::api
