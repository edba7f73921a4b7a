// A worker program for tests of the runtime: see toy_program.h.
#include <cstdlib>
#include <string>

#include "elastic/toy_device.h"
#include "elastic/toy_program.h"
#include "elastic/worker/worker.h"

int main(int argc, char** argv) {
  rubato::elastic::ToyProgram::Options toy;
  rubato::elastic::WorkerOptions worker{
      .name = "toy", .epochs = 1'000'000, .steps = 100, .logical_workers = 4};
  bool device = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long value = std::atol(argv[i + 1]);
    if (name == "--steps") worker.steps = value;
    if (name == "--logical") {
      worker.logical_workers = static_cast<int>(value);
      worker.logical_workers_asked = true;
    }
    if (name == "--floats") toy.floats = static_cast<std::size_t>(value);
    if (name == "--samples") toy.samples = value;
    if (name == "--batch") toy.batch = value;
    if (name == "--seed") toy.seed = static_cast<std::uint64_t>(value);
    if (name == "--compute-us") toy.compute_us = static_cast<int>(value);
    if (name == "--device") device = value != 0;
    if (name == "--fail" && value != 0) return 7;
  }
  if (const char* trait = std::getenv("TOY_TRAIT")) toy.trait = trait;
  if (const char* file = std::getenv("TOY_FAULT_FILE")) toy.fault_file = file;
  if (const char* file = std::getenv("TOY_HURRY_FILE")) toy.hurry_file = file;
  if (const char* trace = std::getenv("TOY_TRACE")) toy.trace = trace;
  if (const char* prefetch = std::getenv("TOY_PREFETCH")) toy.prefetch = prefetch;
  if (const char* number = std::getenv("RUBATO_WORKER")) toy.worker = std::atoi(number);
  rubato::elastic::ToyProgram program(toy);
  rubato::elastic::ToyDevice on_device(program);
  if (device) return rubato::elastic::run_worker(on_device, worker);
  return rubato::elastic::run_worker(program, worker);
}
