// The table of a job document's fields: how each one is read, written, described and documented.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "control/document_node.h"
#include "control/job_document.h"

namespace rubato::control {

struct JobField {
  std::string_view name;          // "devices"; "checkpoint.every" is field `every` of `checkpoint`
  std::string_view form;          // accepted values, for people
  std::string_view default_text;  // for people
  std::string_view help;          // one sentence or two
  Status (*read)(const DocumentNode& node, JobDocument& document);
  nlohmann::json (*write)(const JobDocument& document);  // null: left out
  nlohmann::json (*schema)();
};

// In the order of the documentation.
std::span<const JobField> job_fields();

// The table as a Markdown table (docs/jobs.md).
std::string job_fields_markdown();

// Reads a document that was accepted earlier. Checks each field but not the rules between fields,
// so that a log stays readable when the rules change.
Result<JobDocument> stored_document(const nlohmann::json& object);

}  // namespace rubato::control
