// Labels of a job, `{team: vision, run: "7"}`: they change nothing, people find jobs by them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "control/document_node.h"
#include "control/job_document.h"

namespace rubato::control {

using Labels = std::map<std::string, std::string>;

inline constexpr std::size_t kMostLabels = 32;

// "team=vision"
Result<std::pair<std::string, std::string>> parse_label(std::string_view text);
// "team=vision,run=7"; neither names nor values have commas.
Result<Labels> parse_labels(std::string_view text);
// "run=7,team=vision"
std::string labels_text(const Labels& labels);
// Whether `labels` has every label of `wanted`.
bool has_labels(const Labels& labels, const Labels& wanted);

// The field `labels` of a job document (job_fields.h).
Status read_labels(const DocumentNode& node, JobDocument& document);
nlohmann::json write_labels(const JobDocument& document);
nlohmann::json labels_schema();

}  // namespace rubato::control
