#include "model/job.h"

namespace rubato {

std::string_view to_string(ElasticMode mode) {
  switch (mode) {
    case ElasticMode::kConsistent:
      return "consistent";
    case ElasticMode::kAdaptive:
      return "adaptive";
    case ElasticMode::kRigid:
      return "rigid";
  }
  return "?";
}

std::optional<ElasticMode> parse_elastic_mode(std::string_view text) {
  for (const ElasticMode mode :
       {ElasticMode::kConsistent, ElasticMode::kAdaptive, ElasticMode::kRigid}) {
    if (text == to_string(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace rubato
