// Keeps the daemon's copy of a job's folder like the folder on this node, and makes the folder from
// the copy when the job comes to this node. The job can write in its folder, so it is read with
// job_files.h.
//
// What a restart from the copy needs arrives in this order: a checkpoint's file last, after all
// views of the steps in it. So at any moment the copy is one that the job can continue with.
//
// Of a checkpoint only the parts are sent that differ from the one before: frozen layers and empty
// moments are most of some models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/daemon_link.h"
#include "base/result.h"
#include "base/sha256.h"
#include "control/result_files.h"

namespace rubato::agent {

struct FetchOptions {
  // events.jsonl gets at least this length: its lines were told to the daemon, even if some were
  // lost with a node.
  std::int64_t events_length = 0;
  // This node, if the job was begun on another one: only what workers need to join it, and what
  // happened here before.
  std::string guest_of{};
  std::string upload{};  // of the job's document; it goes to the store of this node
};
// Writes the files of the copy into the folder, which exists.
Status fetch_folder(DaemonLink& link, control::JobNumber job, const std::string& folder,
                    const FetchOptions& options);

struct MirrorOptions {
  std::string outputs{};
  // The node, if the job was begun on another one: what only one node can have stays apart.
  std::string node{};
  // The job may be on other nodes, too: its registry is the daemon's, and files of others are
  // theirs.
  bool spread = false;
};

class FolderMirror {
 public:
  FolderMirror(control::JobNumber job, std::string folder, const MirrorOptions& options)
      : job_(job), place_{.folder = std::move(folder), .outputs = options.outputs}, how_(options) {}

  // Sends what has changed, at most about `most` bytes. True: everything that was there at the
  // beginning of the call has been sent.
  Result<bool> send(DaemonLink& link, std::int64_t most);

 private:
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    std::int64_t size = 0;
    bool operator==(const Version&) const = default;
  };
  struct Sent {
    Version version{};
    std::int64_t bytes = 0;
    bool whole = false;                 // nothing is missing of this version
    bool here = false;                  // it was in this folder
    std::vector<Sha256Digest> parts{};  // of a checkpoint: its parts that have been sent
  };
  struct Source {
    std::string path;    // as the copy has it
    std::string file;    // in the folder; empty: the same
    bool grows = false;  // it is only ever added to
  };

  Status ask_what_is_there(DaemonLink& link);
  std::vector<Source> sources() const;
  void add_outputs(std::vector<Source>& all, const std::string& path, int depth) const;
  Result<control::OpenFile> open(const std::string& path) const;
  // Returns what is left of `most`.
  Result<std::int64_t> send_one(DaemonLink& link, const Source& source, std::int64_t most);
  Status send_part(DaemonLink& link, const std::string& path, Sent& sent, const std::string& bytes);
  // The newest checkpoint that the copy has whole; null: there is none, or its parts are not known.
  const std::pair<const std::string, Sent>* last_checkpoint() const;
  Status remove_missing(DaemonLink& link, const std::vector<Source>& present);

  const control::JobNumber job_;
  const control::ResultPlace place_;
  const MirrorOptions how_;
  bool asked_ = false;
  std::map<std::string, Sent> sent_;
};

}  // namespace rubato::agent
