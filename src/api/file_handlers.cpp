// The files of a job, for its owner: lists and contents (control/result_files.h). Everything is
// read in the thread of the connection with the rights of the job's user, a block at a time.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "api/handlers.h"
#include "api/stream_place.h"
#include "api/streams.h"
#include "control/as_user.h"

namespace rubato::api {

namespace {

using control::JobNumber;
using control::OpenFile;
using control::ResultPlace;
using nlohmann::json;

constexpr std::int64_t kFileBlock = 256 * 1024;

// Bytes [first, end) of a file.
struct Part {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

std::optional<std::int64_t> whole(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool all = problem == std::errc() && end == digits.data() + digits.size() && value >= 0;
  return all ? std::optional(value) : std::nullopt;
}

// The part that "bytes=FIRST-LAST", "bytes=FIRST-" or "bytes=-COUNT" asks for. Other forms ask for
// everything. Nothing: there is no such part.
std::optional<Part> part_of(std::string_view range, std::int64_t size) {
  const Part all{0, size};
  constexpr std::string_view kUnit = "bytes=";
  if (!range.starts_with(kUnit)) return all;
  range.remove_prefix(kUnit.size());
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return all;
  const std::string_view last_text = range.substr(dash + 1);
  const std::optional<std::int64_t> last = whole(last_text);
  if (dash == 0) {
    if (!last) return all;
    return *last == 0 || size == 0
               ? std::nullopt
               : std::optional(Part{std::max<std::int64_t>(0, size - *last), size});
  }
  const std::optional<std::int64_t> first = whole(range.substr(0, dash));
  if (!first || (!last && !last_text.empty())) return all;
  if (last && *last < *first) return all;
  if (*first >= size) return std::nullopt;
  return Part{*first, last && *last < size ? *last + 1 : size};
}

std::string etag_of(const OpenFile& file) {
  const struct stat& s = file.status;
  return fmt::format("\"{:x}-{:x}-{:x}{:08x}\"", s.st_ino, s.st_size, s.st_mtim.tv_sec,
                     s.st_mtim.tv_nsec);
}

Result<ResultPlace> find_place(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return number.error();
  return call.controller.result_place(call.caller, *number);
}

}  // namespace

Reply list_files(const Call& call) {
  const Result<ResultPlace> place = find_place(call);
  if (!place.ok()) return error_reply(place.error());
  const control::AsUser rights = control::AsUser::owner_of(place->folder);
  const Result<control::ResultList> list =
      control::list_results(*place, call.text("path"), call.text("after"),
                            static_cast<std::size_t>(call.number("limit")));
  if (!list.ok()) return error_reply(list.error());
  json entries = json::array();
  for (const control::ResultEntry& entry : list->entries) {
    entries.push_back({{"name", entry.name},
                       {"kind", control::to_string(entry.kind)},
                       {"size", entry.size},
                       {"modified", std::max(0.0, entry.modified)},
                       {"executable", entry.executable}});
  }
  return json_reply({{"path", list->path},
                     {"kind", list->is_file ? "file" : "folder"},
                     {"next", list->more ? json(list->entries.back().name) : json(nullptr)},
                     {"unnamed", list->unnamed},
                     {"entries", std::move(entries)}});
}

Reply get_file(const Call& call) {
  const Result<ResultPlace> place = find_place(call);
  if (!place.ok()) return error_reply(place.error());
  std::shared_ptr<OpenFile> file;
  {
    const control::AsUser rights = control::AsUser::owner_of(place->folder);
    Result<OpenFile> opened = control::open_result(*place, call.text("path"));
    if (!opened.ok()) return error_reply(opened.error());
    file = std::make_shared<OpenFile>(std::move(*opened));
  }
  const std::string etag = etag_of(*file);
  const bool same = !call.parameters.contains("If-Range") || call.text("If-Range") == etag;
  const std::string range = same ? call.text("Range") : "";
  const std::optional<Part> part = part_of(range, file->size());
  if (!part) {
    Reply reply =
        error_reply(416, "no-such-range", fmt::format("the file has {} bytes", file->size()));
    reply.headers["Content-Range"] = fmt::format("bytes */{}", file->size());
    return reply;
  }
  const std::shared_ptr<void> open_stream = enter_stream(call);
  if (!open_stream) return no_stream_place(call);
  const bool whole_file = part->first == 0 && part->end == file->size();
  Reply reply{.status = whole_file ? 200 : 206, .content_type = "application/octet-stream"};
  reply.headers["ETag"] = etag;
  reply.headers["Accept-Ranges"] = "bytes";
  reply.headers["X-Content-Type-Options"] = "nosniff";
  if (!whole_file) {
    reply.headers["Content-Range"] =
        fmt::format("bytes {}-{}/{}", part->first, part->end - 1, file->size());
  }
  reply.length = part->end - part->first;
  reply.stream = [&controller = call.controller, &streams = call.streams, caller = call.caller,
                  token = call.caller.token_version, open_stream, file, at = part->first,
                  end = part->end](std::string& bytes) mutable {
    if (streams.wait(0) || controller.token_version(caller) != token) return false;
    // Shorter if the job has cut the file meanwhile: the stream breaks, as it must.
    bytes = file->read(at, std::min(kFileBlock, end - at));
    at += static_cast<std::int64_t>(bytes.size());
    return at < end;
  };
  return reply;
}

Reply get_store(const Call& call) {
  Result<elastic::Descriptor> copy = call.controller.store_copy();
  if (!copy.ok()) return error_reply(copy.error());
  auto file = std::make_shared<elastic::Descriptor>(std::move(*copy));
  struct stat status {};
  if (fstat(file->get(), &status) != 0) return error_reply(503, "io", "the copy cannot be read");
  const std::shared_ptr<void> open_stream = enter_stream(call);
  if (!open_stream) return no_stream_place(call);
  Reply reply{.content_type = "application/octet-stream"};
  reply.length = status.st_size;
  reply.stream = [&streams = call.streams, open_stream, file, at = std::int64_t{0},
                  end = reply.length](std::string& bytes) mutable {
    if (streams.wait(0)) return false;
    bytes.resize(static_cast<std::size_t>(std::min(kFileBlock, end - at)));
    const ssize_t count = pread(file->get(), bytes.data(), bytes.size(), at);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    at += count;
    return at < end;
  };
  return reply;
}

}  // namespace rubato::api
