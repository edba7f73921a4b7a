// Jobs that bring their working folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "control/live_controller.h"
#include "control/upload_unpack.h"

namespace rubato::control {

namespace {

// A program in the uploaded folder must be there; others are looked for when the job starts.
Status check_uploaded_program(const std::string& program, const UploadManifest& manifest) {
  if (program.find('/') == std::string::npos || program.starts_with('/')) return ok_status();
  const std::string path = std::filesystem::path(program).lexically_normal().string();
  const auto found = std::find_if(manifest.begin(), manifest.end(),
                                  [&](const UploadEntry& entry) { return entry.path == path; });
  if (found == manifest.end()) {
    return invalid_input(fmt::format("run: '{}' is not among the uploaded files", program));
  }
  if (found->link.empty() && !found->executable) {
    return invalid_input(
        fmt::format("run: '{0}' is not executable; make it so (chmod +x), or name its interpreter, "
                    "as in 'python3 {0}'",
                    program));
  }
  return ok_status();
}

}  // namespace

void LiveController::use_uploads(std::shared_ptr<Uploads> uploads) {
  uploads_ = std::move(uploads);
  const auto needed = [this] {
    Uploads::Needed all;
    const ReadLock lock(mutex_);
    for (const auto& [number, job] : store_->state().jobs) {
      if (ended(job.phase) || job.document.upload.empty()) continue;
      if (const auto name = parse_upload(job.document.upload)) {
        all.emplace(name->store, name->digest);
      }
    }
    return all;
  };
  uploads_->collect_regularly(needed, [] { return control::now_unix(); });
}

Result<elastic::Descriptor> LiveController::job_upload(const Caller& caller, JobNumber job,
                                                       const std::string& sha256) const {
  const Result<JobRecord> record = visible({.tenant = "", .admin = true}, job);
  const bool may = nodes_ != nullptr &&
                   (caller.admin || (!caller.node.empty() && nodes_->is_on(job, caller.node)));
  const auto name = record.ok() ? parse_upload(record->document.upload) : std::nullopt;
  if (!may || !name || !is_digest(sha256)) {
    return Error{ErrorCode::kNotFound, fmt::format("node {} has no job {} with such an upload",
                                                   caller.node, job_name_of(job))};
  }
  return uploads_->open(name->store, sha256);
}

Status LiveController::settle_upload(const Caller& caller, JobDocument& document) {
  if (document.upload.empty()) return ok_status();
  if (!document.dir.empty()) {
    return invalid_input(
        "dir: a job with an upload runs in the uploaded folder; leave the field out");
  }
  // Only one's own: whatever store a submitted document names is not looked at.
  const std::string store = Uploads::store_of(caller.tenant, caller.admin);
  const std::string digest = document.upload.substr(document.upload.rfind('/') + 1);
  const Result<UploadManifest> manifest = uploads_->check(store, digest);
  if (!manifest.ok()) {
    const Error& error = manifest.error();
    return Error{error.code == ErrorCode::kNotFound ? ErrorCode::kRefused : error.code,
                 error.message};
  }
  document.upload = fmt::format("{}/{}", store, digest);
  return check_uploaded_program(document.run.front(), *manifest);
}

}  // namespace rubato::control
