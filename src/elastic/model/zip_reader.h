// Reads a zip archive without compression, as PyTorch's files are.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::elastic {

// The content of each entry, as views of `text`. Refuses what is damaged or compressed.
Result<std::map<std::string, std::string_view>> zip_entries(std::string_view text);

}  // namespace rubato::elastic
