// rubato report: shows recorded simulations, those of several folders side by side.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "show_page.h"
#include "sim/report.h"

namespace rubato::cli {

namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string out;
  bool open = false;
  bool serve = false;
  int port = 0;
};

// Where the page goes unless --out says it: beside the only folder's data, else to this folder.
std::string page_path(const ReportArguments& arguments) {
  if (!arguments.out.empty()) return arguments.out;
  return arguments.folders.size() == 1 ? arguments.folders.front() + "/report.html" : "report.html";
}

// All that a build without Node can show. It leaves a page with plots, which another build may have
// written, as it is.
int show_table(const ReportArguments& arguments, std::span<const ReportDocument> documents) {
  const std::string problem =
      "this rubato was built without Node and cannot make the page; 'make dashboard' builds one "
      "that "
      "can";
  if (arguments.serve || arguments.open || !arguments.out.empty()) {
    return fail({ErrorCode::kRefused, problem});
  }
  fmt::print("{}", text_table(all_runs(documents)));
  fmt::print(stderr, "{}\n", problem);
  return 0;
}

int run_report(const ReportArguments& arguments) {
  std::vector<ReportDocument> documents;
  for (const std::string& folder : arguments.folders) {
    auto document = read_report(folder);
    if (!document) return fail(document.error());
    documents.push_back(std::move(*document));
  }
  const ReportBundle bundle = report_bundle();
  if (bundle.script.empty()) return show_table(arguments, documents);
  const std::string page = html_report(documents, bundle);
  if (arguments.serve) {
    const Status served = serve_page(page, arguments.port);
    return served ? 0 : fail(served.error());
  }
  const std::string path = page_path(arguments);
  if (is_directory(path)) {
    return fail(invalid_input("--out " + path + ": is a folder; expected a file to write"));
  }
  if (const Status written = write_file(path, page); !written) return fail(written.error());
  fmt::print("{}", text_table(all_runs(documents)));
  fmt::print(stderr, "written to {}\n", path);
  if (arguments.open) open_in_browser(path);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Command& chosen) {
  CLI::App* report =
      app.add_subcommand("report", "Show recorded simulations, several folders side by side");
  auto a = std::make_shared<ReportArguments>();
  report->add_option("DIR", a->folders, "Folders that 'rubato sim --out DIR' wrote")->required();
  report->add_option("--out", a->out,
                     "File for the page (default: DIR/report.html; of several folders: "
                     "report.html here)");
  report->add_flag("--open", a->open, "Open the page in the browser");
  CLI::Option* serve = report->add_flag(
      "--serve", a->serve, "Serve the page on 127.0.0.1 and write no file, until Ctrl-C");
  report->add_option("--port", a->port, "Port for --serve; 0: a free one")
      ->check(between(0, 65'535))
      ->capture_default_str()
      ->needs(serve);
  serve->excludes(report->get_option("--out"), report->get_option("--open"));
  report->callback([a, &chosen] { chosen = [a] { return run_report(*a); }; });
}

}  // namespace rubato::cli
