// rubato workload generate: generates workloads in the native format.
#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "commands.h"
#include "sim/generate.h"

namespace rubato::cli {

void add_workload(CLI::App& app, Command& chosen) {
  CLI::App* workload = app.add_subcommand("workload", "Generate workloads");
  workload->require_subcommand(1);
  CLI::App* generate = workload->add_subcommand(
      "generate", "Generate a workload in the native format (JSON lines) on standard output");
  struct WorkloadArguments {
    GenerateOptions options;
    std::string out;
  };
  auto arguments = std::make_shared<WorkloadArguments>();
  GenerateOptions& options = arguments->options;
  generate->add_option("--jobs", options.jobs, "Number of jobs")
      ->check(between(1, 10'000'000))
      ->capture_default_str();
  const std::map<std::string, Arrival> arrivals{
      {"bursty", Arrival::kBursty}, {"diurnal", Arrival::kDiurnal}, {"poisson", Arrival::kPoisson}};
  generate
      ->add_option_function<std::string>(
          "--arrival",
          [&options, arrivals](const std::string& name) { options.arrival = arrivals.at(name); },
          "Arrival process: poisson, diurnal or bursty")
      ->check(one_of({"bursty", "diurnal", "poisson"}));
  generate->add_option("--hours", options.hours, "Hours over which the arrivals are spread")
      ->check(between(0.001, 1e6))
      ->capture_default_str();
  generate->add_option("--mix", options.mix_file,
                       "File with the mix of jobs (JSON; default: built-in)");
  generate->add_option("--seed", options.seed, "Random seed")->capture_default_str();
  generate->add_option("--out", arguments->out, "Write to this file instead");
  generate->callback([=, &chosen] {
    chosen = [=] {
      const auto text = generate_workload(arguments->options);
      if (!text) return fail(text.error());
      if (arguments->out.empty()) {
        std::fwrite(text->data(), 1, text->size(), stdout);
        return 0;
      }
      const Status written = write_file(arguments->out, *text);
      if (!written) return fail(written.error());
      fmt::print(stderr, "{} jobs written; next: rubato sim --workload {} --policy fifo,pollux\n",
                 arguments->options.jobs, arguments->out);
      return 0;
    };
  });
}

}  // namespace rubato::cli
