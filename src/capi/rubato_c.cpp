// The functions of rubato/rubato.h. Nothing may throw across them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "capi/task_program.h"
#include "capi/turns.h"
#include "elastic/worker/worker.h"
#include "rubato/rubato.h"

namespace {

using rubato::capi::TaskProgram;
using rubato::capi::Turns;

thread_local std::string last_error;

int failed(std::string message) {
  last_error = std::move(message);
  return RUBATO_FAILED;
}

// The fields that the caller's version of the struct has.
void give(const rubato_task& task, rubato_task* out) {
  const std::size_t size = out->size;
  std::memcpy(out, &task, std::min(size, sizeof task));
  out->size = size;
}

rubato_end end_without_result(int code) {
  const bool left =
      code == rubato::elastic::kWorkerDone || code == rubato::elastic::kWorkerExcluded;
  return left ? RUBATO_LEFT : RUBATO_STOPPED;
}

constexpr std::size_t kSmallestTask = offsetof(rubato_task, final_private) + sizeof(void*);

}  // namespace

struct rubato_worker {
  explicit rubato_worker(const rubato_job& job) : turns([this] { return train(); }) {
    auto made = TaskProgram::make(job, [this](const rubato_task& task) { turns.perform(task); });
    if (!made.ok()) throw std::runtime_error(made.error().message);
    program = std::move(*made);
  }

  std::unique_ptr<TaskProgram> program;
  Turns turns;
  int code = rubato::elastic::kWorkerFailed;

 private:
  // On the runtime's stack.
  rubato_task train() {
    bool finished = false;
    rubato::elastic::WorkerOptions options = program->worker_options();
    options.at_end = [&](std::span<const std::byte> private_state) {
      finished = true;
      final_private_.assign(private_state.begin(), private_state.end());
    };
    code = rubato::elastic::run_worker(*program, options);
    return program->end_task(finished ? RUBATO_FINISHED : end_without_result(code),
                             final_private_.data());
  }

  std::vector<std::byte> final_private_;
};

extern "C" {

int rubato_api_version(void) { return RUBATO_API_VERSION; }
const char* rubato_version(void) { return RUBATO_VERSION; }
const char* rubato_last_error(void) { return last_error.c_str(); }
void rubato_hello(void) {
  try {
    rubato::elastic::say_hello();
  } catch (const std::exception& error) {
    failed(error.what());
  }
}

rubato_worker* rubato_open(const struct rubato_job* job) {
  try {
    if (job == nullptr) throw std::runtime_error("rubato_open: the job is null");
    return std::make_unique<rubato_worker>(*job).release();
  } catch (const std::exception& error) {
    failed(error.what());
    return nullptr;
  }
}

int rubato_next(rubato_worker* worker, struct rubato_task* task) {
  if (worker == nullptr || task == nullptr) return failed("rubato_next: null");
  if (task->size < kSmallestTask) {
    return failed(
        fmt::format("rubato_task.size: {}; expected sizeof(struct rubato_task)", task->size));
  }
  try {
    rubato_task next{};
    worker->turns.next(next);
    give(next, task);
    return RUBATO_OK;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int rubato_fail(rubato_worker* worker, const char* message) {
  if (worker == nullptr) return failed("rubato_fail: null");
  try {
    worker->turns.fail(message != nullptr ? message : "");
    return RUBATO_OK;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int rubato_close(rubato_worker* worker) {
  if (worker == nullptr) return rubato::elastic::kWorkerFailed;
  const std::unique_ptr<rubato_worker> owned(worker);
  try {
    worker->turns.give_up("the program ended before its job did");
  } catch (const std::exception& error) {
    failed(error.what());
  }
  return worker->code;
}

int rubato_get_share(rubato_worker* worker, int64_t step, int32_t logical, int64_t* samples,
                     uint64_t capacity, struct rubato_share* share) {
  if (worker == nullptr || share == nullptr) return failed("rubato_get_share: null");
  if (share->size < sizeof *share) return failed("rubato_share.size: too small");
  try {
    const rubato::Result<rubato::elastic::MiniBatch> batch = worker->program->share(step, logical);
    if (!batch.ok()) return failed(batch.error().message);
    share->epoch = batch->epoch;
    share->weight = batch->weight;
    share->random_seed = batch->random_seed;
    share->sample_count = batch->samples.size();
    std::copy_n(batch->samples.begin(), std::min<std::size_t>(capacity, batch->samples.size()),
                samples);
    return RUBATO_OK;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int rubato_report(rubato_worker* worker, const char* name, double value) {
  if (worker == nullptr || name == nullptr) return failed("rubato_report: null");
  try {
    const rubato::Status reported = worker->program->report(name, value);
    return reported.ok() ? RUBATO_OK : failed(reported.error().message);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int rubato_witness(rubato_worker* worker, const char* name, uint32_t hash, const char* text) {
  if (worker == nullptr) return failed("rubato_witness: null");
  try {
    worker->program->witness(name, hash, text);
    return RUBATO_OK;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int rubato_run(const struct rubato_job* job,
               int (*perform)(void* context, const struct rubato_task* task, char* message,
                              size_t message_size),
               void* context) {
  try {
    if (job == nullptr || perform == nullptr) throw std::runtime_error("rubato_run: null");
    const auto call = [&](const rubato_task& task) {
      std::array<char, 1024> message{};
      if (perform(context, &task, message.data(), message.size()) == 0) return;
      message.back() = '\0';
      throw std::runtime_error(message[0] != '\0' ? message.data() : "the program failed");
    };
    auto program = TaskProgram::make(*job, call);
    if (!program.ok()) throw std::runtime_error(program.error().message);
    bool finished = false;
    rubato::elastic::WorkerOptions options = (*program)->worker_options();
    options.at_end = [&](std::span<const std::byte> private_state) {
      finished = true;
      call((*program)->end_task(RUBATO_FINISHED, private_state.data()));
    };
    const int code = rubato::elastic::run_worker(**program, options);
    if (!finished) call((*program)->end_task(end_without_result(code), nullptr));
    return code;
  } catch (const std::exception& error) {
    failed(error.what());
    return rubato::elastic::kWorkerFailed;
  }
}

}  // extern "C"
