// The format of one checkpoint file. Internal to this layer; checkpoint.h is the way in.
//
//   header (40 bytes): "RUBATOCK", version (u32), 0 (u32), step (i64), payload bytes (u64),
//                      0 (u32), CRC-32C of the 36 bytes before (u32)
//   payload:           description length (u64), description, number of parts (u64), length of each
//                      (u64), all parts
// All numbers are little-endian. The payload is cut into blocks of 1 MiB, the last one shorter,
// each followed by the CRC-32C of its number (u64) and its bytes (u32), so a block in the wrong
// place is recognised too. Nothing follows the last block.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "elastic/checkpoint.h"

namespace rubato::elastic {

// Creates the file, which must not exist, and returns when its bytes are durable. On an error the
// file may be there, incomplete.
Status write_checkpoint_file(const std::string& path, const CheckpointParts& checkpoint);

// Refuses everything that is not a complete, undamaged file of this step and description. Never
// allocates more than the file has bytes (and one block). The error says why, without the path.
Result<LoadedCheckpoint> read_checkpoint_file(const std::string& path, std::int64_t step,
                                              const std::string& description);

}  // namespace rubato::elastic
