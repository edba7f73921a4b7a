// Result<T>: a value, or a coded error with a message that a person can act on. Errors cross module
// borders only as results. Exceptions of a library that throws stay inside the module that calls
// it.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace rubato {

enum class ErrorCode {
  kInvalidInput,  // the caller's data is wrong; the message says where, what was found and expected
  kNotFound,      // a file or a name does not exist
  kIo,            // the operating system refused
  kRefused,       // valid in itself, but not in the current state (the job has already ended)
  kForbidden,     // the caller may not do this
  kInvalidPlan,   // a policy returned a plan that breaks a rule: a bug in the policy
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string message;
};

inline Error invalid_input(std::string message) {
  return {ErrorCode::kInvalidInput, std::move(message)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    RUBATO_CHECK(!ok(), "error() of a result that holds a value");
    return std::get<Error>(state_);
  }
  T& value() {
    RUBATO_CHECK(ok(), "value() of a result that holds an error");
    return std::get<T>(state_);
  }
  const T& value() const {
    RUBATO_CHECK(ok(), "value() of a result that holds an error");
    return std::get<T>(state_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

// A result without a value: success, or an error.
using Status = Result<std::monostate>;
inline Status ok_status() { return std::monostate{}; }

}  // namespace rubato
