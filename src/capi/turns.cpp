#include "capi/turns.h"

#include <sys/mman.h>

#include <stdexcept>
#include <utility>

namespace rubato::capi {

namespace {

constexpr std::size_t kStackBytes = std::size_t{8} << 20;  // used as needed
constexpr std::size_t kGuardBytes = std::size_t{1} << 16;

thread_local Turns* beginning = nullptr;  // makecontext() passes only integers

}  // namespace

Turns::Turns(Runtime runtime) : runtime_(std::move(runtime)) {
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack_ == MAP_FAILED) throw std::runtime_error("no memory for the runtime's stack");
  mprotect(stack_, kGuardBytes, PROT_NONE);
}

Turns::~Turns() { munmap(stack_, kStackBytes); }

void Turns::begin() {
  Turns* const turns = beginning;
  turns->task_ = turns->runtime_();
  turns->ended_ = true;
  // uc_link continues the program
}

void Turns::switch_to_runtime() {
  if (begun_) {
    swapcontext(&program_context_, &runtime_context_);
    return;
  }
  begun_ = true;
  getcontext(&runtime_context_);
  runtime_context_.uc_stack.ss_sp = stack_;
  runtime_context_.uc_stack.ss_size = kStackBytes;
  runtime_context_.uc_link = &program_context_;
  makecontext(&runtime_context_, &Turns::begin, 0);
  beginning = this;
  swapcontext(&program_context_, &runtime_context_);
}

void Turns::perform(const rubato_task& task) {
  if (!given_up_) {
    failure_.clear();
    task_ = task;
    swapcontext(&runtime_context_, &program_context_);
  }
  if (!failure_.empty()) throw std::runtime_error(failure_);
}

void Turns::next(rubato_task& out) {
  if (!ended_) switch_to_runtime();
  out = task_;
}

void Turns::fail(std::string message) {
  failure_ = message.empty() ? "the program failed" : std::move(message);
}

void Turns::give_up(const std::string& message) {
  if (!begun_ || ended_) return;
  given_up_ = true;
  failure_ = message;
  switch_to_runtime();
}

}  // namespace rubato::capi
