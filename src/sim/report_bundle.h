// The script and the style sheet of report.html: made of the dashboard's components
// (web/src/report) and put into the program by the build (cmake/RubatoDashboard.cmake).
#pragma once

#include <string_view>

namespace rubato {

struct ReportBundle {
  std::string_view script;
  std::string_view style;
};

// Both are empty in a build without Node.
ReportBundle report_bundle();

}  // namespace rubato
