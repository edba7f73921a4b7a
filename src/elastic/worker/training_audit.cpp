// The part of a worker's training that audits it; see elastic/job/audit.h.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/crc32c.h"
#include "elastic/worker/training.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kGradientAlignment = 64;
constexpr int kPasses = 2;
// On a network file system, a record may become visible late.
constexpr std::int64_t kStepsToWait = 200;

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float, Free>;

Floats floats(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) / kGradientAlignment + 1) * kGradientAlignment;
  return Floats(static_cast<float*>(std::aligned_alloc(kGradientAlignment, bytes)));
}

template <typename T>
std::uint32_t hash_of(const T& value) {
  return crc32c(std::as_bytes(std::span(&value, 1)));
}

// The same for all workers, and another one in every audit.
int chosen(std::int64_t step, int logical_workers) {
  const auto number = static_cast<std::uint64_t>(step) * 0x9e3779b97f4a7c15U;
  return static_cast<int>((number >> 32) % static_cast<std::uint64_t>(logical_workers));
}

}  // namespace

// False: the program failed.
bool Training::audit_if_due(const ActiveView& view, std::int64_t step) {
  const bool asked = view.view.audit && step == view.view.first_step;
  if (!asked && !audit_due(step, context_.audit_every)) return true;
  if (audited_step_ == step && audited_view_ == view.view.number) return true;  // it begins again
  audited_step_ = step;
  audited_view_ = view.view.number;
  mirror_state();
  AuditRecord record{
      .step = step,
      .view = view.view.number,
      .worker = view.view.members[static_cast<std::size_t>(view.position)].address.id};
  for (const std::span<std::byte> unit : context_.own->units()) {
    record.units.push_back(crc32c(unit));
  }
  // In an adaptive job, only the state is compared.
  if (context_.adaptive == nullptr && !audit_mini_batch(step, record)) return false;
  const Status written = AuditFolder(*context_.folder).write(record);
  if (!written.ok()) fmt::print(stderr, "rubato: audit: {}\n", written.error().message);
  if (view.leads()) unjudged_ = {step, view.view.number, view.view.ids()};
  return true;
}

bool Training::audit_mini_batch(std::int64_t step, AuditRecord& record) {
  Program& program = *context_.program;
  const int workers = context_.settings->logical_workers;
  record.logical = chosen(step, workers);
  context_.order->share(step, record.logical, batch_);
  for (int tried = 1; batch_.samples.empty() && tried < workers; ++tried) {
    record.logical = (record.logical + 1) % workers;
    context_.order->share(step, record.logical, batch_);
  }
  const std::size_t size = program.shape().gradient_floats;
  const Floats gradient = floats(size);
  if (!gradient) {
    fmt::print(stderr, "rubato: audit: no memory for {} floats; only the state is compared\n",
               size);
    record.logical = -1;
    return true;
  }
  const HostStep host{.logical = record.logical, .buffer = WorkerSegment::most_buffers(workers)};
  program.bind_buffer(host.buffer, gradient.get());
  // Always the same memory: programs remember what is on its way to where.
  audit_after_.resize(program.shape().private_bytes);
  const std::span<std::byte> after(audit_after_);
  for (int pass = 0; pass < kPasses; ++pass) {
    double loss = 0;
    program.begin_audit(pass);
    if (!compute(host, step, port_.board().private_state(record.logical, step), after, loss)) {
      return false;
    }
    program.settle();
    program.publish(host.buffer);
    Program::Witness witness = program.end_audit();
    AuditRecord::Pass result{.loss = hash_of(loss), .private_state = crc32c(after)};
    std::size_t at = 0;
    const auto add = [&](std::size_t count) {
      result.gradient.push_back(crc32c(std::as_bytes(std::span(gradient.get() + at, count))));
      at += count;
    };
    for (const Program::GradientPart& part : program.gradient_parts()) {
      add(std::min(part.floats, size - at));
    }
    if (at < size) add(size - at);
    result.witness = std::move(witness.hashes);
    if (!witness.suspicion.empty()) record.suspicion = std::move(witness.suspicion);
    record.passes.push_back(std::move(result));
  }
  return true;
}

// All members wrote their records before they computed the step that is now complete.
void Training::judge_audit(std::int64_t step) {
  if (!unjudged_) return;
  const AuditFolder folder(*context_.folder);
  const auto records = folder.read(unjudged_->step, unjudged_->view, unjudged_->workers);
  if (!records) {
    if (step - unjudged_->step > kStepsToWait) unjudged_.reset();
    return;
  }
  const std::string problem = audit_problem(*records, audit_names(*context_.program));
  nlohmann::json event = {{"type", "audit"},
                          {"at", unix_seconds()},
                          {"step", unjudged_->step},
                          {"workers", records->size()},
                          {"logical", records->front().logical},
                          {"same", problem.empty()}};
  if (!problem.empty()) {
    event["message"] = problem;
    fmt::print(stderr, "rubato: audit: {}\n", problem);
  }
  static_cast<void>(context_.folder->append_event(event));
  folder.remove_until(unjudged_->step);
  unjudged_.reset();
}

}  // namespace rubato::elastic
