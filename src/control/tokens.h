// Random names that cannot be guessed.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::control {

Result<std::string> random_token();  // "rbt_..."
Result<std::string> random_uid();    // 32 hexadecimal digits

}  // namespace rubato::control
