// Does what `rubatod supervise FOLDER` does, without the rest of the daemon.
#include <cstring>

#include "control/supervise.h"

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "supervise") != 0) return 2;
  return rubato::control::supervise(argv[2]);
}
