// Points at which tests let a program die as by kill -9. RUBATO_CRASH_AT="after cancelled" kills
// the process that reaches crash_point("after", "cancelled"). Without the variable a point does
// nothing.
#pragma once

#include <string_view>

namespace rubato {

void crash_point(std::string_view when, std::string_view what);

}  // namespace rubato
