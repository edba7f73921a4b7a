// The fixed parts of report.html. The page contains its data as JSON in one script element. The
// script builds every element through the DOM, so names are never parsed as markup.
#pragma once

#include <string_view>

namespace rubato {

std::string_view page_before_data();    // up to and including the opening tag of the data
std::string_view page_after_data();     // the data's closing tag and the opening tag of the script
std::string_view page_script_tools();   // numbers, elements, axes, crosshair
std::string_view page_script_charts();  // table, figures, controls
std::string_view page_end();

}  // namespace rubato
