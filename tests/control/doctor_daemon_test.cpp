// `rubato doctor` on machines whose daemon, operating system or cluster lacks something.
#include "control/doctor_machine.h"

namespace rubato::control::doctor {
namespace {

// --- The daemon

TEST_F(Doctor, LooksForARunningDaemon) {
  expect("daemon", Level::kOk, "answers at http://127.0.0.1:7117");
  machine_.answers.erase(std::string(kUrl) + kApiDocument);
  expect("daemon", Level::kWarn, "no rubatod answers");
  subject_.server_urls.clear();
  expect("daemon", Level::kNote, "no daemon runs here");
}

TEST_F(Doctor, KnowsWhoHasThePort) {
  expect("port", Level::kOk, "used by rubatod");
  subject_.server_urls.clear();  // a daemon of somebody else
  expect("port", Level::kOk, "used by rubatod");
  for (const char* body :
       {kGarbage, "{}", "[]", R"({"info":{"title":"Grafana"}})", "{\"info\":1}"}) {
    machine_.answers[std::string(kUrl) + kApiDocument].body = body;
    expect("port", Level::kFail, "another program");
  }
  machine_.ports[7117] = {Port::State::kUnusable, "Cannot assign requested address"};
  expect("port", Level::kFail, "Cannot assign requested address");
  machine_.ports.erase(7117);
  expect("port", Level::kOk, "is free");
}

TEST_F(Doctor, OnlyNotesATakenPortWhenTheDaemonHasAnother) {
  subject_.server_urls = {"http://127.0.0.1:9000"};
  machine_.answers["http://127.0.0.1:9000/api/v1/openapi.json"] =
      machine_.answers[std::string(kUrl) + kApiDocument];
  machine_.answers.erase(std::string(kUrl) + kApiDocument);
  expect("port", Level::kNote, "another program");
}

TEST_F(Doctor, ChecksTheStateFolder) {
  expect("state folder", Level::kOk, "80.0 GB free");
  subject_.server_urls.clear();
  machine_.spaces[kState].free_bytes = 500'000'000;
  expect("state folder", Level::kWarn, "500 MB free");
  machine_.spaces[kState].free_bytes = 1000;
  expect("state folder", Level::kFail, "1 kB free");
  machine_.spaces[kState] = {.free_bytes = 80'000'000'000, .free_files = 3, .counts_files = true};
  expect("state folder", Level::kFail, "3 more files");
  machine_.spaces[kState].network_filesystem = "NFS";
  expect("state folder", Level::kWarn, "NFS");
  machine_.spaces.erase(kState);
  expect("state folder", Level::kNote, "unknown");
}

TEST_F(Doctor, SeesAStateFolderThatTheDaemonCouldNotUse) {
  subject_.server_urls.clear();
  machine_.folders[kState].mode = 0755;
  expect("state folder", Level::kOk, "80.0 GB");  // empty: the daemon makes it private
  machine_.files[std::string(kState) + "/notes.txt"] = "";
  expect("state folder", Level::kFail, "open to others");
  machine_.files[std::string(kState) + "/rubato.lock"] = "";
  expect("state folder", Level::kOk, "80.0 GB");
  machine_.folders[kState].owner = 0;
  expect("state folder", Level::kFail, "belongs to user 0");
  machine_.folders[kState].writable = false;
  expect("state folder", Level::kFail, "not writable");
  machine_.folders.erase(kState);
  machine_.files[kState] = "";
  expect("state folder", Level::kFail, "not a folder");
}

TEST_F(Doctor, SeesWhetherTheStateFolderCouldBeCreated) {
  subject_.server_urls.clear();
  machine_.folders.erase(kState);
  machine_.folders["/home/ada"] = {.exists = true, .folder = true, .writable = true};
  machine_.spaces["/home/ada"] = {.free_bytes = 80'000'000'000};
  expect("state folder", Level::kOk, "rubatod creates it");
  machine_.folders["/home/ada"].writable = false;
  expect("state folder", Level::kFail, "/home/ada is not writable");
}

// --- The operating system

TEST_F(Doctor, ChecksLimits) {
  expect("limits", Level::kOk, "65536 open files");
  machine_.limit.open_files = 256;
  expect("limits", Level::kWarn, "256 open files");
  machine_.limit.open_files = 16;
  expect("limits", Level::kFail, "16 open files");
  machine_.limit = {.open_files = 65536, .core_bytes = 0, .processes = 50};
  expect("limits", Level::kWarn, "50 processes");
}

TEST_F(Doctor, ChecksCoreDumps) {
  expect("core dumps", Level::kOk, "core");
  machine_.limit.core_bytes = 0;
  expect("core dumps", Level::kNote, "off");
}

TEST_F(Doctor, ChecksTheClocks) {
  expect("clock", Level::kOk, "synchronised");
  machine_.clock.synchronised = false;
  expect("clock", Level::kWarn, "not synchronised");
  machine_.clock.synchronised.reset();
  expect("clock", Level::kNote, "does not say");
  machine_.clock.wall_passed_s = -3;
  expect("clock", Level::kWarn, "jumped by -3.0 s");
  machine_.clock.wall_s = 12;
  expect("clock", Level::kFail, "years behind");
  machine_.clock.monotonic_passed_s = 0;
  expect("clock", Level::kFail, "stands still");
}

TEST_F(Doctor, ChecksControlGroups) {
  expect("cgroups", Level::kOk, "version 2 (cpu io memory pids)");
  machine_.folders.erase("/run/systemd/system");
  machine_.folders["/sys/fs/cgroup/user.slice/ada"].writable = false;
  expect("cgroups", Level::kNote, "may not create groups");
  machine_.files.erase("/sys/fs/cgroup/cgroup.controllers");
  machine_.files["/sys/fs/cgroup/unified/cgroup.controllers"] = "";
  expect("cgroups", Level::kNote, "versions 1 and 2");
  machine_.files.erase("/sys/fs/cgroup/unified/cgroup.controllers");
  machine_.files["/proc/self/cgroup"] = "4:memory:/a\n";
  machine_.folders["/sys/fs/cgroup/memory"] = {.exists = true, .folder = true};
  expect("cgroups", Level::kNote, "version 1;");
  machine_.files["/proc/self/cgroup"] = kGarbage;
  expect("cgroups", Level::kNote, "none");
  machine_.files.erase("/proc/self/cgroup");
  expect("cgroups", Level::kNote, "none");
}

// --- Clusters

TEST_F(Doctor, ChecksSlurm) {
  expect("slurm", Level::kOk, "slurm-wlm 22.05.8, 5 nodes");
  machine_.programs["sinfo --noheader"] = printed(kGarbage);
  expect("slurm", Level::kWarn, "sinfo answers");
  machine_.programs["sinfo --noheader"] = failed("slurm_load_partitions: Unable to contact\n");
  expect("slurm", Level::kWarn, "Unable to contact");
  machine_.programs["sinfo --noheader"] = hung();
  expect("slurm", Level::kWarn, "does not answer");
  machine_.programs.erase("sinfo --version");
  machine_.programs.erase("sinfo --noheader");
  expect("slurm", Level::kNote, "not installed");
}

TEST_F(Doctor, ChecksEtcd) {
  expect("etcd", Level::kOk, "3.4.23 at 127.0.0.1:2379");
  machine_.answers["http://127.0.0.1:2379/version"].body = kGarbage;
  expect("etcd", Level::kNote, "not installed");
  machine_.programs["etcdctl version"] = printed("etcdctl version: 3.4.23\n");
  expect("etcd", Level::kNote, "installed, but nothing answers");
  machine_.variables["ETCDCTL_ENDPOINTS"] = "http://a:2379,http://b:2379";
  expect("etcd", Level::kWarn, "nothing answers at http://a:2379,http://b:2379");
  machine_.answers["http://b:2379/version"] = {200, R"({"etcdserver":"3.5.0"})", ""};
  expect("etcd", Level::kOk, "3.5.0 at http://b:2379");
}

}  // namespace
}  // namespace rubato::control::doctor
