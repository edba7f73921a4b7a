// Assertions for our own bugs. They stay enabled in release builds: a scheduler that carries on
// after a broken invariant would hand out devices that do not exist.
#pragma once

namespace rubato {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message);

}  // namespace rubato

#define RUBATO_CHECK(condition, message)                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::rubato::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
