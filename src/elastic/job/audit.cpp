#include "elastic/job/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"

namespace rubato::elastic {

namespace {

using Pass = AuditRecord::Pass;

constexpr std::array<std::int64_t, 3> kFirstAudits{1, 4, 16};
constexpr const char* kInput = "input";  // the witness that stands for the data

// The first entry that differs, or -1.
int first_difference(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  const std::size_t size = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < size; ++i) {
    if (a[i] != b[i]) return static_cast<int>(i);
  }
  return a.size() == b.size() ? -1 : static_cast<int>(size);
}

std::string name_of(const std::vector<std::string>& names, int index) {
  const auto i = static_cast<std::size_t>(index);
  return i < names.size() ? names[i] : fmt::format("number {}", index);
}

std::string first_witness(const Pass& a, const Pass& b) {
  for (const auto& [name, hash] : a.witness) {
    const auto other = b.witness.find(name);
    if (other == b.witness.end() || other->second != hash) return name;
  }
  return "";
}

// What differs between two passes over the same mini-batch; empty: nothing.
std::string difference(const Pass& a, const Pass& b, const AuditNames& names) {
  if (const int part = first_difference(a.gradient, b.gradient); part >= 0) {
    return fmt::format("the gradient of '{}'", name_of(names.gradient, part));
  }
  if (a.loss != b.loss) return "the loss";
  if (a.private_state != b.private_state) return "the buffers after the mini-batch";
  const std::string witness = first_witness(a, b);
  return witness.empty() ? "" : fmt::format("the {}", witness);
}

bool input_differs(const Pass& a, const Pass& b) {
  const auto x = a.witness.find(kInput);
  const auto y = b.witness.find(kInput);
  return x != a.witness.end() && y != b.witness.end() && x->second != y->second;
}

std::string problem_of_one(const AuditRecord& record, const AuditNames& names) {
  if (record.passes.size() < 2) return "";
  const Pass& first = record.passes[0];
  const Pass& second = record.passes[1];
  const std::string what = difference(first, second, names);
  if (what.empty()) return "";
  std::string text = fmt::format(
      "step {}: worker {} computed the mini-batch of logical worker {} twice, and {} "
      "differs",
      record.step, record.worker, record.logical, what);
  if (!record.suspicion.empty()) return text + "; likely cause: " + record.suspicion;
  if (input_differs(first, second)) {
    return text +
           "; its samples differ, too, so the data set does not give the same sample for the same "
           "index: a random source that is not seeded, or a clock";
  }
  const std::string witness = first_witness(first, second);
  if (!witness.empty()) {
    return text + fmt::format(
                      "; the {} differs as well: the program draws more random numbers one "
                      "time than the other, because of state of its own or a clock",
                      witness);
  }
  return text +
         "; likely cause: a non-deterministic operation, a random source that is not seeded, a "
         "clock, or state of its own";
}

std::string problem_of_two(const AuditRecord& a, const AuditRecord& b, const AuditNames& names) {
  const std::string who = fmt::format("step {}: workers {} and {}", a.step, a.worker, b.worker);
  if (const int unit = first_difference(a.units, b.units); unit >= 0) {
    return fmt::format(
        "{} have different bits in '{}' (the parameter or its optimizer state) before they "
        "compute; "
        "likely cause: something other than the update changed it, such as code that only the "
        "leading worker runs",
        who, name_of(names.units, unit));
  }
  if (a.logical != b.logical || a.passes.empty() || b.passes.empty()) return "";
  const std::string what = difference(a.passes[0], b.passes[0], names);
  if (what.empty()) return "";
  const std::string text = fmt::format(
      "{} have the same state and computed the mini-batch of "
      "logical worker {}, but {} differs",
      who, a.logical, what);
  if (input_differs(a.passes[0], b.passes[0])) {
    return text +
           "; their samples differ, too: the data set differs from worker to worker (other files, "
           "a random source that is not seeded when it is made)";
  }
  if (!a.suspicion.empty()) return text + "; likely cause: " + a.suspicion;
  return text +
         "; likely cause: state of its own that the runtime does not know (an attribute that is no "
         "parameter or buffer, an environment variable, the order of a set), or another library";
}

}  // namespace

nlohmann::json to_json(const AuditRecord& record) {
  nlohmann::json passes = nlohmann::json::array();
  for (const Pass& pass : record.passes) {
    passes.push_back({{"gradient", pass.gradient},
                      {"loss", pass.loss},
                      {"private", pass.private_state},
                      {"witness", pass.witness}});
  }
  return {{"step", record.step},          {"view", record.view},   {"worker", record.worker},
          {"logical", record.logical},    {"units", record.units}, {"passes", std::move(passes)},
          {"suspicion", record.suspicion}};
}

Result<AuditRecord> parse_audit_record(const nlohmann::json& value) {
  AuditRecord record;
  try {
    record = {.step = value.at("step").get<std::int64_t>(),
              .view = value.at("view").get<std::int64_t>(),
              .worker = value.at("worker").get<int>(),
              .logical = value.at("logical").get<int>(),
              .units = value.at("units").get<std::vector<std::uint32_t>>(),
              .passes = {},
              .suspicion = value.at("suspicion").get<std::string>()};
    for (const nlohmann::json& pass : value.at("passes")) {
      record.passes.push_back(
          {.gradient = pass.at("gradient").get<std::vector<std::uint32_t>>(),
           .loss = pass.at("loss").get<std::uint32_t>(),
           .private_state = pass.at("private").get<std::uint32_t>(),
           .witness = pass.at("witness").get<std::map<std::string, std::uint32_t>>()});
    }
  } catch (const nlohmann::json::exception&) {
    return invalid_input("expected an audit record");
  }
  return record;
}

AuditNames audit_names(const Program& program) {
  AuditNames names;
  names.units.assign(program.shape().unit_bytes.size(), "");
  for (std::size_t i = 0; i < names.units.size(); ++i) names.units[i] = fmt::format("unit {}", i);
  std::vector<bool> named(names.units.size());
  for (const TensorPlace& place : program.tensors()) {
    if (place.unit < 0) continue;
    const auto unit = static_cast<std::size_t>(place.unit);
    if (!named[unit]) names.units[unit] = place.name;
    named[unit] = true;
  }
  for (const Program::GradientPart& part : program.gradient_parts()) {
    names.gradient.push_back(part.name);
  }
  return names;
}

std::string audit_problem(std::span<const AuditRecord> records, const AuditNames& names) {
  // A difference in the state explains all others.
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].units != records[0].units) return problem_of_two(records[0], records[i], names);
  }
  for (const AuditRecord& record : records) {
    if (std::string problem = problem_of_one(record, names); !problem.empty()) return problem;
  }
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (std::string problem = problem_of_two(records[0], records[i], names); !problem.empty()) {
      return problem;
    }
  }
  return "";
}

std::string AuditFolder::file(std::int64_t step, int worker) const {
  return fmt::format("{}/{}.{}.json", path_, step, worker);
}

Status AuditFolder::write(const AuditRecord& record) const {
  Status made = make_directories(path_);
  if (!made.ok()) return made;
  return write_file(file(record.step, record.worker), compact_json(to_json(record)) + "\n");
}

std::optional<std::vector<AuditRecord>> AuditFolder::read(std::int64_t step, std::int64_t view,
                                                          std::span<const int> workers) const {
  std::vector<AuditRecord> records;
  for (const int worker : workers) {
    const Result<std::string> text = read_file(file(step, worker));
    if (!text.ok()) return std::nullopt;
    Result<AuditRecord> record = parse_audit_record(parse_json(*text));
    if (!record.ok() || record->step != step || record->view != view || record->worker != worker) {
      return std::nullopt;
    }
    records.push_back(std::move(*record));
  }
  return records;
}

void AuditFolder::remove_until(std::int64_t step) const {
  const Result<std::vector<std::string>> names = list_directory(path_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const auto number = parse_int(std::string_view(name).substr(0, name.find('.')));
    if (number && *number <= step) std::remove((path_ + "/" + name).c_str());
  }
}

bool audit_due(std::int64_t step, std::int64_t every) {
  if (every <= 0) return false;
  return std::find(kFirstAudits.begin(), kFirstAudits.end(), step) != kFirstAudits.end() ||
         (step > 0 && step % every == 0);
}

Result<std::int64_t> audit_every_of_environment(bool launched) {
  const char* const text = std::getenv(kAuditVariable);
  if (text == nullptr || *text == '\0') return launched ? kAuditEvery : 0;
  const auto every = parse_int(text);
  if (every && *every >= 0) return *every;
  return invalid_input(fmt::format("{}: '{}'; expected the number of steps between audits, or 0",
                                   kAuditVariable, text));
}

}  // namespace rubato::elastic
