// Checks in advance whether a worker can be started.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// Errors name the path that is wrong.
Status check_directory(const std::string& directory);
// The path of command[0], found as execvp does in `directory` (empty: the current one): a name with
// a slash is a path, any other name is looked for in the folders of `search_path`.
Result<std::string> find_program(const std::vector<std::string>& command,
                                 const std::string& directory, const std::string& search_path);
Status check_program(const std::vector<std::string>& command, const std::string& directory,
                     const std::string& search_path);  // whether it is found
// PATH as a worker with these additional variables sees it.
std::string search_path_with(const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace rubato::elastic
