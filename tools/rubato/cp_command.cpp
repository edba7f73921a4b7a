// rubato cp, ls: the files of a job.
#include <fmt/format.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "file_fetch.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct CopyArguments {
  std::string source;
  std::string folder;
  bool as_json = false;
};

// JOB:PATH. Only names of jobs can contain further colons, and ids have none.
struct Source {
  std::string job;
  std::optional<std::string> path{};
};
Source parse_source(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<FoundJob> job_of(const Context& context, const std::string& name) {
  Result<FoundJob> job = which_job(context, name);
  if (!job.ok() || job->of_daemon()) return job;
  return invalid_input(
      fmt::format("{} is a job of 'rubato run', not of the daemon; its files are in {}", job->name,
                  job->folder));
}

int copy_files(const CopyArguments& a, const Context& context) {
  const Source source = parse_source(a.source);
  if (!source.path) {
    return fail(invalid_input(fmt::format(
        "'{0}': expected JOB:PATH, such as {0}:outputs/model.pt; '{0}:' stands for all outputs",
        a.source)));
  }
  const Result<FoundJob> job = job_of(context, source.job);
  if (!job.ok()) return fail(job.error());
  FileFetch fetch(context.server, job->id);
  const Result<RemoteTree> tree = fetch.find(source.path->empty() ? "outputs" : *source.path);
  if (!tree.ok()) return fail(tree.error());
  const Status fetched = fetch.fetch(*tree, a.folder);
  if (!fetched.ok()) return fail(fetched.error());
  std::int64_t bytes = 0;
  json files = json::array();
  for (const RemoteFile& file : tree->files) {
    bytes += file.size;
    files.push_back(
        {{"path", file.path}, {"to", a.folder + "/" + file.local}, {"size", file.size}});
  }
  for (const std::string& left_out : tree->left_out) {
    fmt::print(stderr, "rubato: left out: {}\n", left_out);
  }
  if (a.as_json) {
    print_json({{"job", job->id}, {"files", std::move(files)}, {"left_out", tree->left_out}});
  } else {
    fmt::print("{}, {}\n", counted(static_cast<std::int64_t>(tree->files.size()), "file"),
               bytes_text(bytes));
  }
  return 0;
}

int list_files(const CopyArguments& a, const Context& context) {
  const Source source = parse_source(a.source);
  const Result<FoundJob> job = job_of(context, source.job);
  if (!job.ok()) return fail(job.error());
  FileFetch fetch(context.server, job->id);
  const std::string path = !source.path ? "" : source.path->empty() ? "outputs" : *source.path;
  const Result<json> list = fetch.list(path);
  if (!list.ok()) return fail(list.error());
  if (a.as_json) {
    json shown = *list;
    shown.erase("next");
    print_json(shown);
    return 0;
  }
  Table table({{"SIZE", 10, true}, {"CHANGED", 12}, {"NAME", 4096}});
  for (const json& entry : (*list)["entries"]) {
    const std::string kind = entry.value("kind", "");
    std::string name = shown_name(entry.value("name", ""));
    if (kind == "folder") name += "/";
    if (kind == "link") name += " (a link)";
    if (kind == "other") name += " (not a file)";
    table.row({kind == "file" ? bytes_text(entry.value("size", std::int64_t{0})) : "-",
               time_text(entry.value("modified", 0.0)), std::move(name)});
  }
  if (!table.empty()) fmt::print("{}", table.text());
  if (table.empty()) fmt::print(stderr, "nothing is there\n");
  if (list->value("unnamed", 0) > 0) {
    fmt::print(stderr, "rubato: left out: {} with names that are not plain text\n",
               list->value("unnamed", 0));
  }
  return 0;
}

}  // namespace

void add_copy(CLI::App& app, const Context& context, Command& chosen) {
  auto c = std::make_shared<CopyArguments>();
  CLI::App* copying = app.add_subcommand("cp", "Fetch files of a job: outputs, logs, checkpoints");
  copying
      ->add_option("source", c->source,
                   "JOB:PATH, such as j12:outputs/model.pt; 'j12:' stands for all outputs")
      ->required();
  copying->add_option("folder", c->folder, "Folder to put them in; created if it is missing")
      ->required();
  copying->add_flag("--json", c->as_json, "The files as JSON");
  copying->callback(
      [c, &context, &chosen] { chosen = [c, &context] { return copy_files(*c, context); }; });

  auto l = std::make_shared<CopyArguments>();
  CLI::App* listing = app.add_subcommand("ls", "List files of a job");
  listing
      ->add_option("source", l->source,
                   "JOB, or JOB:PATH for a folder of it; 'j12:' stands for its outputs")
      ->required();
  listing->add_flag("--json", l->as_json, "The list as JSON");
  listing->callback(
      [l, &context, &chosen] { chosen = [l, &context] { return list_files(*l, context); }; });
}

}  // namespace rubato::cli
