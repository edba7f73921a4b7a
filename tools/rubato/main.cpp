#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "commands.h"
#ifndef RUBATO_RUNTIME_ONLY
#include "daemon_jobs.h"
#endif

namespace rubato::cli {

namespace {

// Bundled data: next to the installed program, else in the source tree from which it was built.
std::string find_share_dir() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto installed = program.parent_path().parent_path() / "share" / "rubato";
    if (is_directory(installed.string())) return installed.string();
  }
  return is_directory(RUBATO_INSTALL_SHARE_DIR) ? RUBATO_INSTALL_SHARE_DIR
                                                : RUBATO_SOURCE_SHARE_DIR;
}

// A word as a shell must read it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789%+,-./:=@_") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int run(int argc, char** argv) {
  Context context{.command_line = "rubato", .share_dir = find_share_dir()};
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string& word : words) context.command_line += " " + shell_word(word);

  CLI::App app{"Rubato: elastic deep-learning training that shares devices among jobs."};
  app.name("rubato");
  app.set_version_flag("--version", RUBATO_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // the options below may also come after the subcommand
  Command chosen;
#ifndef RUBATO_RUNTIME_ONLY
  const std::unique_ptr<DaemonJobs> daemon = make_daemon_jobs(context.server);
  context.daemon = daemon.get();
  app.add_option("--server", context.server.url, "URL of the daemon (default: the local one)")
      ->envname("RUBATO_SERVER");
  app.add_option("--token-file", context.server.token_file, "File with your token")
      ->envname("RUBATO_TOKEN_FILE");
  app.add_option("--ca-file", context.server.ca_file, "Certificates to trust, for https")
      ->envname("RUBATO_CA_FILE");
  add_submit_commands(app, context, chosen);
  add_queue_commands(app, context, chosen);
  add_wait(app, context, chosen);
  add_logs(app, context, chosen);
  add_copy(app, context, chosen);
  add_change_commands(app, context, chosen);
  add_rm(app, context, chosen);
  add_top(app, context, chosen);
  add_cluster_commands(app, context, chosen);
  add_node_commands(app, context, chosen);
  add_pilots(app, context, chosen);
  add_usage(app, context, chosen);
  add_doctor(app, context, chosen);
#endif
  add_worker_commands(app, context, chosen);
  add_profile(app, context, chosen);
  add_ps(app, context, chosen);
  add_events(app, context, chosen);
  add_run(app, context, chosen);
  add_replay(app, context, chosen);
  add_audit(app, context, chosen);
  add_export(app, context, chosen);
#ifndef RUBATO_RUNTIME_ONLY
  add_sim(app, context, chosen);
  add_report(app, chosen);
  add_policies(app, chosen);
  add_workload(app, chosen);
  add_describe_commands(app, chosen);
#endif
  if (const std::string problem = unknown_command(app, words); !problem.empty()) {
    return fail(invalid_input(problem));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(invalid_input(parse_problem(app, error)));
  }
  return chosen();
}

}  // namespace

int fail(const Error& error) {
  fmt::print(stderr, "rubato: {}\n", error.message);
  return 1;
}

}  // namespace rubato::cli

int main(int argc, char** argv) {
  try {
    return rubato::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs("rubato: internal error: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
