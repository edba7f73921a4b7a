// Brings the upload of a job (control/uploads.h) from the daemon to the store of this node.
#pragma once

#include <string>

#include "agent/daemon_link.h"
#include "control/uploads.h"

namespace rubato::agent {

// Fetches the files of the upload that are not here yet. `upload` is that of the job's document.
// What was fetched stays if the call fails, so that the next one has less to do.
Status fetch_upload(DaemonLink& link, control::JobNumber job, control::Uploads& uploads,
                    const std::string& upload);

}  // namespace rubato::agent
