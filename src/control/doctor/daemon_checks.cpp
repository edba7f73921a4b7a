// The daemon: its state folder, its port, and whether one runs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "control/doctor/checks.h"
#include "control/doctor/clean_text.h"

namespace rubato::control::doctor {

namespace {

// The API document names itself, and anybody may read it.
bool is_rubatod(const MachineView& view, const std::string& url) {
  const Answer answer = view.get(url + "/api/v1/openapi.json");
  const nlohmann::json body = parse_json(answer.body);
  return answer.status == 200 && body.is_object() && body.contains("info") &&
         body["info"].is_object() && body["info"].value("title", nlohmann::json()) == "Rubato";
}

// The folder itself, or the nearest one above it that exists.
std::string nearest_folder(const MachineView& view, std::string path) {
  while (path.size() > 1 && !view.file(path).exists) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    path.resize(std::max<std::size_t>(slash, 1));
  }
  return path;
}

// Why rubatod could not work in the folder; an empty text if it could.
Finding problem_of(const MachineView& view, const std::string& folder, const std::string& nearest) {
  const FileInfo info = view.file(nearest);
  const std::string other = "use another folder: rubatod --state DIR, or set RUBATO_STATE";
  if (!info.folder) {
    return {"", Level::kFail, fmt::format("{} is not a folder", clean(nearest)), other};
  }
  if (nearest != folder) {
    if (info.writable) return {};
    return {"", Level::kFail,
            fmt::format("{} cannot be created: {} is not writable", clean(folder), clean(nearest)),
            other};
  }
  if (!info.writable) {
    return {"", Level::kFail, fmt::format("{} is not writable", clean(folder)),
            fmt::format("{} (it belongs to user {})", other, info.owner)};
  }
  if (view.user() != info.owner && view.user() != 0) {
    return {"", Level::kFail, fmt::format("{} belongs to user {}", clean(folder), info.owner),
            other};
  }
  if ((info.mode & 066U) != 0 && !view.list(folder).empty() &&
      !view.file(folder + "/rubato.lock").exists) {
    return {"", Level::kFail,
            fmt::format("{} is open to others and holds other files; rubatod refuses it",
                        clean(folder)),
            other};
  }
  return {};
}

}  // namespace

Daemon find_daemon(const MachineView& view, const Subject& subject) {
  Daemon daemon;
  for (const std::string& url : subject.server_urls) {
    daemon.url = url;
    daemon.answers = is_rubatod(view, url);
    if (daemon.answers) break;
  }
  if (daemon.answers) {
    daemon.finding = {"daemon", Level::kOk, fmt::format("rubatod answers at {}", clean(daemon.url)),
                      ""};
  } else if (!daemon.url.empty()) {
    daemon.finding = {
        "daemon", Level::kWarn,
        fmt::format("no rubatod answers at {}", clean(subject.server_urls.front())),
        "start it again: rubatod (running jobs are found again); for another machine, "
        "correct --server or RUBATO_SERVER"};
  } else {
    daemon.finding = {"daemon", Level::kNote, "no daemon runs here",
                      "start one: rubatod, or rubatod --cpu-slots N; 'rubato run' needs none"};
  }
  return daemon;
}

Finding check_port(const MachineView& view, const Subject& subject, const Daemon& daemon) {
  const std::string address = fmt::format("{}:{}", subject.host, subject.port);
  const std::string other = "start the daemon with another: rubatod --listen 127.0.0.1:PORT";
  const Port port = view.port(subject.host, subject.port);
  switch (port.state) {
    case Port::State::kFree:
      return {"port", Level::kOk, fmt::format("{} is free", address), ""};
    case Port::State::kUnusable:
      return {
          "port", Level::kFail,
          fmt::format("cannot listen on {}: {}", address, clean(port.problem)),
          "use an address of this machine and a port above 1023; for 127.0.0.1: ip link set lo up"};
    case Port::State::kTaken:
      break;
  }
  const bool ours = (daemon.answers && daemon.url.ends_with(":" + std::to_string(subject.port))) ||
                    is_rubatod(view, "http://" + address);
  if (ours) return {"port", Level::kOk, fmt::format("{} is used by rubatod", address), ""};
  return {
      "port", daemon.answers ? Level::kNote : Level::kFail,
      fmt::format("{} is used by another program", address),
      fmt::format("see which: ss -ltnp 'sport = :{}'; then stop it, or {}", subject.port, other)};
}

Finding check_state_folder(const MachineView& view, const Subject& subject, const Daemon& daemon) {
  constexpr std::uint64_t kFewest = 64'000'000;
  constexpr std::uint64_t kEnough = 2'000'000'000;
  const std::string name = "state folder";
  const std::string& folder = subject.state_folder;
  const std::string nearest = nearest_folder(view, folder);
  if (Finding problem = problem_of(view, folder, nearest); !problem.found.empty()) {
    problem.check = name;
    if (daemon.answers) problem.level = Level::kNote;  // the running daemon has its own
    return problem;
  }
  const auto space = view.space(nearest);
  if (!space) {
    return {name, Level::kNote, fmt::format("{}: free space is unknown", clean(folder)),
            "check it with df"};
  }
  if (!space->network_filesystem.empty()) {
    return {name, Level::kWarn,
            fmt::format("{} is on {}, where the database's locks are not safe", clean(folder),
                        space->network_filesystem),
            "use a folder on a local disk: rubatod --state DIR, or set RUBATO_STATE"};
  }
  const bool no_files = space->counts_files && space->free_files < 1000;
  const std::string found =
      no_files ? fmt::format("{}: only {} more files fit", clean(folder), space->free_files)
               : fmt::format("{}: {} free{}", clean(folder), bytes_text(space->free_bytes),
                             nearest == folder ? "" : "; rubatod creates it");
  if (space->free_bytes < kFewest || no_files) {
    return {name, Level::kFail, found, "delete files, or use another folder: rubatod --state DIR"};
  }
  if (space->free_bytes < kEnough) {
    return {
        name, Level::kWarn, found,
        "every job keeps checkpoints there, with Adam 12 bytes per parameter each: delete files, "
        "or rubatod --state DIR"};
  }
  return {name, Level::kOk, found, ""};
}

}  // namespace rubato::control::doctor
