// Runs independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rubato {

// Calls work(i) exactly once for each i in [0, count), on up to `threads` threads. Returns when all
// calls are done. The pieces must be independent of each other; which thread runs which piece is
// unspecified.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work);
int hardware_threads();

}  // namespace rubato
