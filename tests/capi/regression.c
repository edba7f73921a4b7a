/* A training program in C: linear regression with momentum. It asks for its tasks (rubato_next), or is
 * called for them (with the argument "called"); the result is the same. */
#include <stdio.h>
#include <string.h>

#include "rubato/rubato.h"

enum { FEATURES = 5, SAMPLES = 200 };

static float* weights; /* in the runtime's memory: FEATURES weights, then their momentum */

static float feature(int64_t sample, int i) {
  return (float)((sample * 7919 + i * 104729) % 1009) / 1009.0F;
}

static float target(int64_t sample) {
  float sum = 0;
  for (int i = 0; i < FEATURES; ++i) sum += (float)(i + 1) * feature(sample, i);
  return sum;
}

static void compute(const struct rubato_task* task) {
  float gradient[FEATURES] = {0};
  double loss = 0;
  for (uint64_t s = 0; s < task->sample_count; ++s) {
    const int64_t sample = task->samples[s];
    float error = -target(sample);
    for (int i = 0; i < FEATURES; ++i) error += weights[i] * feature(sample, i);
    for (int i = 0; i < FEATURES; ++i) gradient[i] += 2 * error * feature(sample, i);
    loss += (double)error * (double)error;
  }
  const float scale =
      task->sample_count > 0 ? (float)(task->weight / (double)task->sample_count) : 0.0F;
  for (int i = 0; i < FEATURES; ++i) {
    if (!task->accumulate) task->gradient[i] = 0;
    task->gradient[i] += scale * gradient[i];
  }
  *task->loss = task->sample_count > 0 ? loss / (double)task->sample_count : 0;
}

static void apply(const struct rubato_task* task) {
  if (task->update != NULL && !task->update[0]) return;
  for (int i = 0; i < FEATURES; ++i) {
    weights[FEATURES + i] = 0.9F * weights[FEATURES + i] + task->gradient[i];
    weights[i] -= 0.05F * weights[FEATURES + i];
  }
}

static int perform(void* context, const struct rubato_task* task, char* message, size_t size) {
  (void)context;
  switch (task->kind) {
    case RUBATO_BIND:
      weights = task->unit_memory[0];
      return 0;
    case RUBATO_COMPUTE:
      compute(task);
      return 0;
    case RUBATO_APPLY:
      apply(task);
      return 0;
    case RUBATO_END:
      if (task->end == RUBATO_FINISHED) printf("weights %.3f .. %.3f\n", weights[0], weights[4]);
      return 0;
    default:
      snprintf(message, size, "task %d is unknown", task->kind);
      return 1;
  }
}

int main(int argc, char** argv) {
  const uint64_t bytes[] = {2 * FEATURES * sizeof(float)};
  struct rubato_job job;
  memset(&job, 0, sizeof job);
  job.size = sizeof job;
  job.name = "regression";
  job.gradient_floats = FEATURES;
  job.unit_bytes = bytes;
  job.units = 1;
  job.seed = 1;
  job.samples = SAMPLES;
  job.batch = 8;
  job.shuffle = 1;
  job.logical_workers = 3;
  job.epochs = 40;
  job.steps = -1;
  job.state_in_host_memory = 1;
  job.gradients_in_host_memory = 1;

  if (argc > 1 && strcmp(argv[1], "wrong") == 0) job.batch = 0;
  if (argc > 1 && strcmp(argv[1], "called") == 0) return rubato_run(&job, perform, NULL);

  rubato_worker* const worker = rubato_open(&job);
  if (worker == NULL) {
    fprintf(stderr, "regression: %s\n", rubato_last_error());
    return 2;
  }
  struct rubato_task task;
  memset(&task, 0, sizeof task);
  task.size = sizeof task;
  char message[100];
  do {
    if (rubato_next(worker, &task) != RUBATO_OK) {
      fprintf(stderr, "regression: %s\n", rubato_last_error());
      return 2;
    }
    if (argc > 1 && strcmp(argv[1], "failing") == 0 && task.kind == RUBATO_APPLY && task.step == 2) {
      rubato_fail(worker, "no more ink");
      continue;
    }
    if (perform(NULL, &task, message, sizeof message) != 0) rubato_fail(worker, message);
  } while (task.kind != RUBATO_END);
  return rubato_close(worker);
}
