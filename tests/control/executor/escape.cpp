// escape PIDFILE: leaves a process behind that is hard to find: in a session of its own, without a
// parent, with an empty environment and without open files. Its process id is in PIDFILE when this
// program exits.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void hide() {
  syscall(SYS_close_range, 0U, ~0U, 0U);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--hide") == 0) hide();
  if (argc != 2) return 2;
  const pid_t child = fork();
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  setsid();
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    char name[] = "escape";
    char hide_word[] = "--hide";
    char* const words[] = {name, hide_word, nullptr};
    char* const nothing[] = {nullptr};
    execve("/proc/self/exe", words, nothing);
    _exit(127);
  }
  // Renamed, so that a reader never sees an empty file.
  const std::string draft = std::string(argv[1]) + ".draft";
  FILE* file = std::fopen(draft.c_str(), "w");
  if (file == nullptr) return 1;
  std::fprintf(file, "%d\n", static_cast<int>(grandchild));
  std::fclose(file);
  _exit(std::rename(draft.c_str(), argv[1]) == 0 ? 0 : 1);
}
