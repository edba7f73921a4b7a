// The runtime's own reduction under the harness.
#pragma once

#include "reduce/harness.h"

namespace rubato::bench {

enum OursVariant : int {
  kInPlace,       // as the runtime uses it: the result is read where it is, in shared memory
  kWithCopy,      // and copied to private memory of every rank
  kInPlaceFloor,  // memcpy of as many bytes as kInPlace must read and write
  kWithCopyFloor
};

// Follows the commands as a rank of the group until told to quit.
void serve_ours(const std::string& control, int rank, bool aligned);

}  // namespace rubato::bench
