#include "control/pilots/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text.h"

namespace rubato::control {

namespace {

constexpr auto kAnswersWithin = std::chrono::seconds(30);
// Job, state, reason, time left, expected start, time used, comment.
constexpr const char* kColumns = "%i|%T|%r|%L|%S|%M|%k";
constexpr std::size_t kColumnCount = 7;
constexpr std::string_view kComment = "rubato stays ";  // then seconds

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string pilot_node(const std::string& name, const std::string& job) {
  return fmt::format("{}-{}", name, job);
}

std::string pilot_script(const PilotScript& pilot) {
  std::string agent = fmt::format("{} agent --join {} --token-file {}", quoted(pilot.rubatod),
                                  quoted(pilot.url), quoted(pilot.token_file));
  if (!pilot.ca_file.empty()) agent += " --ca-file " + quoted(pilot.ca_file);
  if (pilot.cpu_slots > 0) agent += fmt::format(" --cpu-slots {}", pilot.cpu_slots);
  const std::string root = pilot.folder.empty() ? "${TMPDIR:-/tmp}" : quoted(pilot.folder);
  // Slurm signals the shell, and sometimes all processes; the agent takes any number of requests to
  // leave as one. `wait` returns when a signal arrives, too.
  return fmt::format(R"(#!/bin/sh
# A pilot of `rubato pilots`: a node of the Rubato daemon at {url}.
state={root}/rubato-pilot-$(id -u)-$SLURM_JOB_ID
mkdir -m 700 "$state" || exit 1
{agent} --leave --leave-after "$1" --isolation none --state "$state" \
  --node {name}-"$SLURM_JOB_ID" --node-label slurm-job="$SLURM_JOB_ID" &
agent=$!
trap 'kill -USR2 $agent 2>/dev/null' TERM USR2
code=0
while kill -0 $agent 2>/dev/null; do wait $agent; code=$?; done
rm -rf "$state"
exit $code
)",
                     fmt::arg("url", pilot.url), fmt::arg("root", root), fmt::arg("agent", agent),
                     fmt::arg("name", pilot.name));
}

std::vector<std::string> sbatch_words(const PilotRequest& request, const std::string& script) {
  std::vector<std::string> words{"sbatch",
                                 "--parsable",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--no-requeue",
                                 "--chdir=/tmp",
                                 "--job-name=" + request.name};
  words.push_back("--time=" + slurm_minutes(request.time));
  words.push_back(fmt::format("--comment={}{:.0f}", kComment, request.stays));
  if (!request.output.empty()) words.push_back("--output=" + request.output);
  words.insert(words.end(), request.more.begin(), request.more.end());
  words.push_back(script);
  words.push_back(fmt::format("{:.0f}", request.stays));
  return words;
}

std::optional<Seconds> parse_time_left(std::string_view text) {
  text = trim(text);
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto whole = parse_int(text.substr(0, dash));
    if (!whole || *whole < 0) return std::nullopt;
    days = static_cast<double>(*whole);
    text = text.substr(dash + 1);
  }
  double seconds = 0;
  for (const std::string_view part : split(text, ':')) {
    const auto whole = parse_int(part);
    if (!whole || *whole < 0) return std::nullopt;
    seconds = 60 * seconds + static_cast<double>(*whole);
  }
  return 86'400 * days + seconds;
}

std::string slurm_minutes(Seconds time) {
  return fmt::format("{:.0f}", std::max(1.0, std::ceil(time / 60)));
}

Result<std::vector<SlurmJob>> parse_squeue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    const auto columns = split(line, '|');
    if (columns.size() != kColumnCount || !parse_int(trim(columns[0]))) {
      return invalid_input(fmt::format("squeue: unexpected line '{}'", line));
    }
    SlurmJob job{.id = std::string(trim(columns[0])),
                 .state = std::string(trim(columns[1])),
                 .reason = std::string(trim(columns[2])),
                 .left = parse_time_left(columns[3])};
    const std::string_view starts = trim(columns[4]);
    if (job.waits() && starts != "N/A") job.starts = starts;
    const std::string_view comment = trim(columns[6]);
    const auto used = parse_time_left(columns[5]);
    if (used && comment.starts_with(kComment)) {
      const auto stays = parse_int(comment.substr(kComment.size()));
      if (stays) job.stays = std::max(0.0, static_cast<double>(*stays) - *used);
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::string> Slurm::call(const std::vector<std::string>& words) const {
  const doctor::Ran ran = machine_.run(words, kAnswersWithin);
  using End = doctor::Ran::End;
  if (ran.ok()) return ran.output;
  const std::string complaint(trim(ran.complaint()));
  const std::string why = ran.end == End::kNotFound   ? "is not installed here"
                          : ran.end == End::kTimedOut ? "does not answer"
                          : complaint.empty() ? fmt::format("ended with exit code {}", ran.code)
                                              : complaint;
  return Error{ErrorCode::kIo, fmt::format("{}: {}", words.front(), why)};
}

Result<std::vector<SlurmJob>> Slurm::jobs(const std::string& name) const {
  const auto text = call({"squeue", "--noheader", fmt::format("--user={}", machine_.user()),
                          "--name=" + name, "--format=" + std::string(kColumns)});
  if (!text.ok()) return text.error();
  return parse_squeue(*text);
}

Result<std::string> Slurm::submit(const PilotRequest& request, const std::string& script) const {
  const auto text = call(sbatch_words(request, script));
  if (!text.ok()) return text.error();
  const std::string_view id = trim(std::string_view(*text).substr(0, text->find(';')));
  if (parse_int(id)) return std::string(id);
  return Error{ErrorCode::kIo, fmt::format("sbatch: unexpected answer '{}'", trim(*text))};
}

Status Slurm::cancel(const std::string& job) const {
  const auto done = call({"scancel", job});
  return done.ok() ? ok_status() : Status(done.error());
}

Status Slurm::tell_to_leave(const std::string& job) const {
  const auto done = call({"scancel", "--batch", "--signal=USR2", job});
  return done.ok() ? ok_status() : Status(done.error());
}

}  // namespace rubato::control
