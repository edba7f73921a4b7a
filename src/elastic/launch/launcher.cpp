#include "elastic/launch/launcher.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/file.h"
#include "elastic/job/checkpoint_place.h"
#include "elastic/job/logical_workers.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/launcher_loop.h"
#include "elastic/launch/lock_node.h"
#include "elastic/memory/shared_memory.h"
#include "elastic/transport/libcrypto.h"

namespace rubato::elastic {

namespace {

// Refuses to continue a job with another number of logical workers.
Status check_logical_workers(const LaunchOptions& options, const JobSettings& before,
                             Registry& registry) {
  const int asked = options.settings.logical_workers;
  if (before.adaptive || asked == before.logical_workers) return ok_status();
  const int agreed = before.logical_workers > 0 ? before.logical_workers
                                                : agreed_logical_workers(registry).value_or(asked);
  if (asked == agreed) return ok_status();
  return invalid_input(
      fmt::format("{}: holds a job with {} logical workers; continue it with --logical {} or "
                  "choose another folder",
                  options.folder, agreed, agreed));
}

// Refuses to encrypt a job that began without: workers on other nodes may still train it.
Status check_still_plain(const LaunchOptions& options, const JobSettings& before) {
  if (before.encrypt || !options.settings.encrypt) return ok_status();
  return invalid_input(
      fmt::format("{}: holds a job that does not encrypt; continue it without --encrypt or choose "
                  "another folder",
                  options.folder));
}

// Refuses to continue a job with another registry: its views are in the one that it has.
Status check_registry(const LaunchOptions& options, const JobSettings& before) {
  const std::string& asked = options.settings.registry;
  if (asked.empty() || before.registry == asked ||
      (!before.registry.empty() &&
       before.registry == registry_within(asked, before.name, before.token))) {
    return ok_status();
  }
  return invalid_input(fmt::format(
      "{}: holds a job with the registry {}; continue it without --registry or choose another "
      "folder",
      options.folder, before.registry.empty() ? "in this folder" : before.registry));
}

// Refuses to continue a job with checkpoints in another place than where they are.
Status check_checkpoints(const LaunchOptions& options, const JobSettings& before) {
  const std::string& asked = options.settings.checkpoints;
  const auto place_of = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  if (asked.empty() || place_of(asked) == place_of(before.checkpoints)) return ok_status();
  return invalid_input(fmt::format(
      "{}: holds a job with its checkpoints in {}; continue it without --checkpoints or choose "
      "another folder",
      options.folder, before.checkpoints.empty() ? "this folder" : before.checkpoints));
}

}  // namespace

Result<LaunchResult> launch(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  Status made = make_directories(options.folder + "/logs");
  if (!made.ok()) return made.error();
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  JobSettings settings = options.settings;
  settings.command = options.command;
  settings.first_workers = options.workers;
  if (settings.adaptive) settings.logical_workers = settings.max_workers;
  settings.home = options.node.name;
  const bool continued = is_file(folder.settings_file());
  bool moved = false;  // from another node
  if (is_file(folder.result_file())) {
    return invalid_input(fmt::format(
        "{}: holds a finished job; choose another folder with --dir or remove it", options.folder));
  }
  if (continued) {
    Result<JobSettings> before = folder.read_settings();
    if (!before.ok()) return before.error();
    if (before->adaptive != settings.adaptive) {
      return invalid_input(
          fmt::format("{}: holds {} job; continue it with --mode {} or choose another folder",
                      options.folder, before->adaptive ? "an adaptive" : "a consistent",
                      before->adaptive ? "adaptive" : "consistent"));
    }
    if (settings.adaptive && before->lr_rule != settings.lr_rule) {
      return invalid_input(
          fmt::format("{}: holds a job with the learning-rate rule {}; continue it with --lr-rule "
                      "{} or choose another folder",
                      options.folder, to_string(before->lr_rule), to_string(before->lr_rule)));
    }
    settings.first_workers = before->first_workers;
    settings.registry = before->registry;
    settings.checkpoints = before->checkpoints;
    const auto known = open_registry(folder, settings);
    if (!known.ok()) return known.error();
    settings.encrypt = before->encrypt;
    Status same = check_registry(options, *before);
    if (same.ok()) same = check_still_plain(options, *before);
    if (same.ok()) same = check_checkpoints(options, *before);
    if (same.ok()) same = check_logical_workers(options, *before, **known);
    if (!same.ok()) return same.error();
    moved = !before->home.empty() && before->home != settings.home;
    if (moved && !options.anywhere) {
      return invalid_input(
          fmt::format("{}: holds a job of node '{}'; continue it there, or with --node {}",
                      options.folder, before->home, before->home));
    }
    settings.token = before->token;
  } else {
    if (settings.encrypt) {
      const Status able = check_encryption();
      if (!able.ok()) return able.error();
    }
    settings.token = random_token();
    const std::string& place = options.settings.registry;
    if (!place.empty()) {
      settings.registry = registry_within(place, settings.name, settings.token);
      Status created = create_registry(settings.registry);
      if (!created.ok()) return created.error();
    }
    if (!is_file(folder.secret_file())) {
      Status secret = folder.make_secret();
      if (!secret.ok()) return secret.error();
    }
  }
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, settings);
  if (!registry.ok()) return registry.error();
  if (!continued) {  // one that cannot be asked is told before there is a job
    const Result<View> none = newest_view(**registry);
    if (!none.ok()) return none.error();
  }
  Status linked = link_checkpoints(folder, settings.checkpoints);
  if (!linked.ok()) return linked.error();
  Status written = folder.write_settings(settings);
  if (!written.ok()) return written.error();
  if (options.listed) {
    Status registered = register_job(settings.name, options.folder);
    if (!registered.ok()) return registered.error();
  }
  Registry& records = **registry;
  Launcher launcher(options, settings, std::move(*registry));
  if (continued) {
    launcher.hide_earlier_events();
    const Result<bool> trains = moved ? Result<bool>(false) : launcher.trains_elsewhere();
    if (!trains.ok()) return trains.error();
    if (!*trains) {
      Status cleared = launcher.clear_view("restart", "gone with its launcher");
      if (!cleared.ok()) return cleared.error();
    }
    // Also the memory of newcomers without a view.
    remove_segments(node_prefix(settings.token, options.node.name));
  }
  if (!options.keep_target) {
    Status targeted = change_target(records, [&](Target& target) {
      target = {.workers = options.workers,
                .batch = target.batch,
                .elsewhere = target.elsewhere,
                .at = unix_seconds()};
      for (const auto& [node, count] : target.elsewhere) target.workers += count;
      return ok_status();
    });
    if (!targeted.ok()) return targeted.error();
  }
  return launcher.run();
}

Result<LaunchResult> join(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  const Status own = folder.check_settings_are_own();
  if (!own.ok()) return own.error();
  Result<JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return settings.error();
  if (settings->home == options.node.name) {
    return invalid_input(fmt::format(
        "{}: '{}' is the node that started the job; use 'rubato scale' there or give this node "
        "another name with --node",
        options.folder, options.node.name));
  }
  if (settings->encrypt) {
    const Status able = check_encryption();
    if (!able.ok()) return able.error();
  }
  settings->spares = 0;
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, *settings);
  if (!registry.ok()) return registry.error();
  Status targeted = change_target(**registry, [&](Target& target) {
    target.workers += options.workers - target.on_node(options.node.name, settings->home);
    target.elsewhere[options.node.name] = options.workers;
    target.at = unix_seconds();
    return ok_status();
  });
  if (!targeted.ok()) return targeted.error();
  Launcher launcher(options, *settings, std::move(*registry));
  launcher.hide_earlier_events();
  return launcher.run();
}

}  // namespace rubato::elastic
