// Splits a command line into words like a shell, without involving one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::control {

// Spaces separate words. Single quotes preserve everything. In double quotes a backslash escapes a
// double quote, a backslash, $ or a backtick; outside quotes it escapes any character. Nothing is
// expanded. Characters with a special meaning in a shell (| & ; < > ( ) $ and the backtick, the
// latter two also in double quotes) are refused unless quoted, because the author expects an effect
// that they would not have.
Result<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace rubato::control
