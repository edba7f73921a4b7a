// Where the tests find the source tree and the programs under test. The values are compiled into
// one small file, so that no other object depends on where the tree lies (and ccache serves all
// trees).
#pragma once

#include <string>

namespace rubato::test_paths {

extern const char* const kSourceTree;
extern const char* const kPrograms;  // the folder of rubato, rubatod, toy_train and the others

inline std::string in_source_tree(const std::string& path) {
  return std::string(kSourceTree) + "/" + path;
}
inline std::string program(const std::string& name) { return std::string(kPrograms) + "/" + name; }

}  // namespace rubato::test_paths
