// The format of one checkpoint file. Internal to this layer; the interface is checkpoint.h.
//
//   header (40 bytes): "RUBATOCK", version (u32), 0 (u32), step (i64), payload bytes (u64),
//                      0 (u32), CRC-32C of the 36 bytes before (u32)
//   payload:           description length (u64), description, number of parts (u64), length of each
//                      (u64), all parts
// All numbers are little-endian. The payload is divided into blocks of 1 MiB (the last one may be
// shorter), each followed by the CRC-32C (u32) of its number (u64) and its bytes, so a misplaced
// block is detected, too. Nothing follows the last block.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "elastic/job/checkpoint.h"

namespace rubato::elastic {

// Creates the file, which must not exist, and returns when its bytes are durable. After an error an
// incomplete file may remain.
Status write_checkpoint_file(const std::string& path, const CheckpointParts& checkpoint);

// Refuses anything but a complete, undamaged file of this step and training; `belongs_elsewhere` is
// set if it is one of another training. Never allocates
// more than the size of the file plus one block. The error says why, without the path.
Result<LoadedCheckpoint> read_checkpoint_file(const std::string& path, std::int64_t step,
                                              const std::string& description,
                                              bool* belongs_elsewhere = nullptr);

}  // namespace rubato::elastic
