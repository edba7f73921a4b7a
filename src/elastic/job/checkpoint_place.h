// Checkpoints that are not in the job's folder, but in a place that its owner names: file:/FOLDER,
// which must be the same folder on every machine of the job. Each job has a folder of its own
// there, made for its user only; `checkpoints` in the job's folder is then a link to it, so that
// whoever looks for checkpoints finds them as always. Nothing there is copied from node to node,
// and nobody removes it with the job.
//
// For jobs that are consistent: should a machine that was given up train on for a while, what it
// writes there is the same, bit for bit, as what its successor writes for the same step.
#pragma once

#include <string>

#include "base/result.h"
#include "elastic/job/job_folder.h"

namespace rubato::elastic {

// The folder that a URL names; it begins with a slash and ends without one.
Result<std::string> parse_checkpoint_place(const std::string& url);

// Makes `target` (an absolute path) and the link to it in the job's folder. The folder that
// `target` is in must exist: where it does not, something is not mounted. Does nothing if `target`
// is empty and the folder has no link.
Status link_checkpoints(const JobFolder& folder, const std::string& target);

// Where this machine finds the checkpoints of a job, of which it may have only a copy without them.
std::string checkpoints_of(const JobFolder& folder);

}  // namespace rubato::elastic
