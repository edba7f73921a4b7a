#include "elastic/job/async_registry.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "elastic/job/job_folder.h"

namespace rubato::elastic {

namespace {

using membership::Swapped;
using membership::ViewNumber;
using membership::ViewPtr;
using membership::ViewsRead;
using std::chrono::steady_clock;

constexpr auto kTellAfter = std::chrono::seconds(5);
// Storage that fails at once is not asked again at once.
constexpr auto kPauseAfterFailure = std::chrono::milliseconds(20);

}  // namespace

AsyncRegistry::AsyncRegistry(Registry& registry, std::function<void(membership::Input)> answer,
                             std::function<void(const std::string&)> complain)
    : registry_(registry), answer_(std::move(answer)), complain_(std::move(complain)) {
  thread_ = std::thread([this] { run(); });
  watch_ = registry.watch([this] { answer_(membership::RegistryChanged{}); });
}

AsyncRegistry::~AsyncRegistry() {
  watch_.reset();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncRegistry::ask(const membership::ReadViews& request) { enqueue(request); }
void AsyncRegistry::ask(const membership::Swap& request) { enqueue(request); }

void AsyncRegistry::enqueue(Request request) {
  {
    const MutexLock lock(mutex_);
    requests_.push_back(std::move(request));
  }
  changed_.notify_all();
}

// False: this object ends.
bool AsyncRegistry::pause() {
  const auto until = steady_clock::now() + kPauseAfterFailure;
  const MutexLock lock(mutex_);
  while (!stopping_ && changed_.wait_until(mutex_, until)) {
  }
  return !stopping_;
}

void AsyncRegistry::run() {
  for (;;) {
    Request request;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && requests_.empty()) changed_.wait(mutex_);
      if (stopping_) return;
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    if (const auto* swapping = std::get_if<membership::Swap>(&request)) {
      const Swapped::Outcome outcome = swap(*swapping->view);
      if (outcome != Swapped::Outcome::kWon && !pause()) return;
      answer_(Swapped{.view = swapping->view, .outcome = outcome});
      continue;
    }
    std::optional<ViewsRead> views = read(std::get<membership::ReadViews>(request).after);
    if (views) {
      answer_(std::move(*views));
    } else {
      if (!pause()) return;
      answer_(membership::ReadFailed{});
    }
  }
}

void AsyncRegistry::note(const Error* error) {
  if (error == nullptr) {
    failing_since_.reset();
    complained_ = false;
    return;
  }
  const auto now = steady_clock::now();
  if (!failing_since_) failing_since_ = now;
  if (complained_ || now - *failing_since_ < kTellAfter) return;
  complained_ = true;
  complain_(fmt::format("the job's registry does not answer: {}; check where it is stored",
                        error->message));
}

std::optional<ViewsRead> AsyncRegistry::read(ViewNumber after) {
  Result<Target> target = newest_target(registry_);
  Result<Record> newest = registry_.get(kViewRecord);
  for (const Error* error :
       {target.ok() ? nullptr : &target.error(), newest.ok() ? nullptr : &newest.error()}) {
    note(error);
    if (error != nullptr) return std::nullopt;
  }
  ViewsRead answer{.views = {}, .target = std::make_shared<const Target>(std::move(*target))};
  const auto add = [&](const std::string& text) {
    Result<View> view = parse_view(parse_json(text));
    if (!view.ok()) {
      note(&view.error());
      return false;
    }
    answer.views.push_back(std::make_shared<const View>(std::move(*view)));
    return true;
  };
  for (ViewNumber number = after + 1; after > 0 && number < newest->version; ++number) {
    const Result<std::optional<std::string>> record = registry_.at(kViewRecord, number);
    // A view that is not visible yet makes the answer stale, not wrong.
    if (!record.ok() || !record->has_value()) return answer;
    if (!add(**record)) return std::nullopt;
  }
  if (newest->version > after && !add(newest->value)) return std::nullopt;
  return answer;
}

Swapped::Outcome AsyncRegistry::swap(const View& view) {
  const std::string text = compact_json(to_json(view));
  const Result<bool> won = registry_.compare_and_swap(kViewRecord, view.number - 1, text);
  note(won.ok() ? nullptr : &won.error());
  // A planned change can as well be made later; the training waits for the answer.
  const bool surely_not = !won.ok() && won.error().code == ErrorCode::kRefused;
  if (surely_not && view.planned() && doubtful_ != view.number) {
    return Swapped::Outcome::kLost;
  }
  if (!won.ok()) {
    if (!surely_not) doubtful_ = view.number;
    return Swapped::Outcome::kUnknown;
  }
  if (*won) return Swapped::Outcome::kWon;
  // Perhaps an earlier try of the same request has won.
  const Result<std::optional<std::string>> there = registry_.at(kViewRecord, view.number);
  note(there.ok() ? nullptr : &there.error());
  if (!there.ok() || !there->has_value()) return Swapped::Outcome::kUnknown;
  return **there == text ? Swapped::Outcome::kWon : Swapped::Outcome::kLost;
}

}  // namespace rubato::elastic
