// A command line as words, the way a shell splits it, without a shell behind it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::control {

// Blanks separate words. Single quotes keep everything. In double quotes a backslash keeps a double
// quote, a backslash, $ or the backtick; outside of quotes it keeps the next character, whatever it
// is. Nothing is expanded: characters that would make a shell do something (| & ; < > ( ) $ and the
// backtick, the latter two also in double quotes) are refused unless quoted, because their author
// expects something that will not happen.
Result<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace rubato::control
