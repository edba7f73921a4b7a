// Runs independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rubato {

// Calls work(i) for i in [0, count), each exactly once, on up to `threads` threads; returns when
// all are done. The pieces must not depend on each other; which thread runs which piece is not
// defined.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work);
int hardware_threads();

}  // namespace rubato
