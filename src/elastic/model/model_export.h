// Reads the model out of a job's newest checkpoint, without its program.
//
//   DIR/tensors.json   where the model's tensors are in a checkpoint; written by the leader
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/model/model_file.h"
#include "elastic/model/tensor_place.h"

namespace rubato::elastic {

struct TensorMap {
  std::string description;           // of the checkpoints that it fits (elastic/job/checkpoint.h)
  std::size_t state_bytes = 0;       // of their first part
  std::size_t private_bytes = 0;     // of a logical worker
  std::size_t private_part = 1;      // which part is the private state of logical worker 0
  std::vector<TensorPlace> tensors;  // unit 0 is the first part
};

Status write_tensor_map(const JobFolder& folder, const TensorMap& map);
Result<TensorMap> read_tensor_map(const JobFolder& folder);

struct ExportedModel {
  std::int64_t step = 0;  // the number of steps done
  std::size_t tensors = 0;
  std::size_t bytes = 0;
};
// Writes the model of the newest checkpoint, with the private state of logical worker 0. The job
// may be running; a finished one has a checkpoint of its end.
Result<ExportedModel> export_model(const JobFolder& folder, ModelFormat format,
                                   const std::string& path);

}  // namespace rubato::elastic
