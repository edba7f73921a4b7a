// Random names that cannot be guessed.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::control {

Result<std::string> random_token();  // "rbt_..."
Result<std::string> random_uid();    // 32 hexadecimal digits
// The token in a private file, which is made with a new one if it does not exist. Whoever can read
// the file may use it.
Result<std::string> token_in_file(const std::string& file);

}  // namespace rubato::control
