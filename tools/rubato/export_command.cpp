// rubato export: the model of a job as a file that others read.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/json_text.h"
#include "commands.h"
#include "elastic/model/model_export.h"

namespace rubato::cli {

namespace {

struct ExportArguments {
  std::string job;
  std::string format = "torch";
  std::string file;
  bool as_json = false;
};

// Also a folder with no more than what was fetched from a daemon on another machine.
Result<std::string> folder_of(const Context& context, const std::string& name) {
  if (is_file(elastic::JobFolder(name).tensors_file())) return name;
  Result<FoundJob> job = which_job(context, name);
  if (!job.ok()) return job.error();
  if (!job->folder.empty()) return job->folder;
  return invalid_input(
      fmt::format("{0} has no folder on this machine; to fetch what is needed: rubato cp "
                  "{0}:checkpoints DIR && rubato cp {0}:tensors.json DIR, then: rubato export DIR",
                  job->shown()));
}

int export_job(const ExportArguments& a, const Context& context) {
  const Result<elastic::ModelFormat> format = elastic::parse_model_format(a.format);
  if (!format.ok()) return fail(invalid_input("--format: " + format.error().message));
  const Result<std::string> folder = folder_of(context, a.job);
  if (!folder.ok()) return fail(folder.error());
  const bool torch = *format == elastic::ModelFormat::kTorch;
  const std::string file = a.file.empty() ? torch ? "model.pt" : "model.safetensors" : a.file;
  const Result<elastic::ExportedModel> exported =
      elastic::export_model(elastic::JobFolder(*folder), *format, file);
  if (!exported.ok()) return fail(exported.error());
  if (a.as_json) {
    const nlohmann::json answer = {{"file", file},
                                   {"format", a.format},
                                   {"step", exported->step},
                                   {"tensors", exported->tensors},
                                   {"bytes", exported->bytes}};
    fmt::print("{}\n", indented_json(answer));
  } else {
    fmt::print("{}: {} tensors, {} bytes, after {} steps\n", file, exported->tensors,
               exported->bytes, exported->step);
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<ExportArguments>();
  CLI::App* sub = app.add_subcommand(
      "export", "Write the model of a job's newest checkpoint to a file that others read");
  sub->add_option("job", a->job, kJobHelp)->required();
  sub->add_option("--format", a->format, "torch (a state_dict, for torch.load) or safetensors")
      ->capture_default_str();
  sub->add_option("-o,--output", a->file, "File to write [model.pt or model.safetensors]");
  sub->add_flag("--json", a->as_json, "Print what was written as JSON");
  sub->callback(
      [a, &context, &chosen] { chosen = [a, &context] { return export_job(*a, context); }; });
}

}  // namespace rubato::cli
