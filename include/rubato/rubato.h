/* Rubato's training runtime for programs in any language.
 *
 * A worker is one process of a job. It says what it trains (struct rubato_job), and then does what
 * the runtime asks, one task at a time:
 *
 *   struct rubato_task task = {sizeof task};
 *   rubato_worker* worker = rubato_open(&job);
 *   while (rubato_next(worker, &task) == RUBATO_OK && task.kind != RUBATO_END) do_it(&task);
 *   int code = rubato_close(worker);
 *
 * rubato_next() says that the task before is done, and waits for the next one. It may wait long
 * (for other workers), on no lock of the caller's. Everything a task points to stays valid until
 * the next call. Which tasks come is decided by what the program declares; a program that leaves
 * state and gradients in host memory sees only RUBATO_BIND, RUBATO_COMPUTE, RUBATO_APPLY and
 * RUBATO_END.
 *
 * rubato_run() is the same with the tasks as a function that the runtime calls.
 *
 * Without a launcher (`rubato run`, `rubato submit`) a worker is a job of its own, with the same
 * bits.
 *
 * One worker per process. Its functions are called from one thread. No function throws or ends the
 * process. Structures begin with their size, so that later versions can add fields; a
 * caller that was compiled with an older header keeps working.
 */
#ifndef RUBATO_RUBATO_H
#define RUBATO_RUBATO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_API_VERSION 1
#define RUBATO_API __attribute__((visibility("default")))

/* RUBATO_API_VERSION of the library. */
RUBATO_API int rubato_api_version(void);
RUBATO_API const char* rubato_version(void);

enum rubato_status {
  RUBATO_OK = 0,
  RUBATO_FAILED = 1, /* rubato_last_error() says why */
};

/* What the last function that failed in this thread had to say; never null. */
RUBATO_API const char* rubato_last_error(void);

/* A part of the environment that affects the bits ("blas", "OpenBLAS 0.3.21 Haswell"). All workers
 * of a job must agree on every one. */
struct rubato_trait {
  const char* name;
  const char* value;
};

/* Where a tensor of the model is in the state, so that a job leaves a model that others read. */
struct rubato_tensor {
  const char* name; /* as in a state_dict */
  const char* type; /* F32, F16, BF16, F64, I64, I32, I16, I8, U8 or BOOL */
  const int64_t* shape;
  const int64_t*
      strides; /* numbers from one element of a dimension to the next; null: contiguous */
  uint64_t dimensions;
  int32_t unit; /* -1: in the private state */
  uint64_t offset;
};

/* A part of the gradient, for messages. */
struct rubato_gradient_part {
  const char* name;
  uint64_t floats;
};

/* What a program trains.
 *
 * The shared state (parameters, optimizer) is equal on all workers between steps. It consists of
 * units. An update changes a unit only from its own content, that of unit 0, and the gradient: so a
 * newcomer may receive units at different steps and catch up unit by unit. It receives unit 0 first
 * and never has it at a later step than another one; what all updates depend on (the learning rate)
 * belongs there.
 *
 * The private state (buffers such as BatchNorm statistics) belongs to one logical worker. */
struct rubato_job {
  size_t size; /* sizeof(struct rubato_job) */
  const char* name;
  uint64_t gradient_floats;
  const uint64_t* unit_bytes;
  uint64_t units;
  uint64_t private_bytes;
  const void* initial_private; /* private_bytes: of a logical worker before its first step */

  uint64_t seed;
  int64_t samples; /* of the data set */
  int64_t batch;   /* samples per logical worker and step */
  int32_t shuffle;
  int32_t logical_workers; /* the program's own number; the owner of the job may give another */
  int64_t epochs;
  int64_t steps; /* ends the job before its epochs do; -1: does not */

  /* 1: the units' memory always holds the state. 0: it lives elsewhere (on a GPU), and the program
   * is asked to write it (RUBATO_STORE) and to read it (RUBATO_REPLACED). */
  int32_t state_in_host_memory;
  /* 1: the library adds gradients up in host memory. 0: the program keeps them and is asked to
   * merge, publish and apply them. */
  int32_t gradients_in_host_memory;
  int32_t wants_replaced; /* 1: RUBATO_REPLACED also if the state is in host memory */
  /* A worker warms up before the job relies on it. 0: with a RUBATO_COMPUTE whose result is thrown
   * away. 1: with the updates that it applies while it catches up, at least one. */
  int32_t warms_up_by_update;
  int32_t quiet;       /* 1: prints nothing to stdout; the program does */
  int32_t saves_model; /* 1: RUBATO_SAVE before the job is finished */
  const struct rubato_trait* traits;
  uint64_t trait_count;
  const struct rubato_tensor* tensors;
  uint64_t tensor_count;
  int32_t allows_nan; /* 0: a loss that is not a number ends the job */
  const struct rubato_gradient_part* gradient_parts;
  uint64_t gradient_part_count;
};

enum rubato_task_kind {
  RUBATO_BIND = 1,         /* move the shared state into `unit_memory` and keep it there */
  RUBATO_COMPUTE = 2,      /* forward and backward pass of one mini-batch */
  RUBATO_APPLY = 3,        /* one update of the optimizer with `gradient` */
  RUBATO_REPLACED = 4,     /* the bytes of `unit` were replaced from outside */
  RUBATO_STORE = 5,        /* write `unit` to its memory */
  RUBATO_MERGE = 6,        /* gradient buffer[buffer] += buffer[from] */
  RUBATO_PUBLISH = 7,      /* copy gradient buffer[buffer] to `gradient`; its content is used up */
  RUBATO_APPLY_BUFFER = 8, /* as RUBATO_APPLY, with scale * buffer[buffer] */
  RUBATO_SETTLE = 9,       /* write every `after` and `loss` that is not written yet */
  RUBATO_SAVE = 10,        /* write the trained model to the file `path`, as a whole (rename) */
  RUBATO_END = 100         /* the last one; `end` says why */
};

enum rubato_end {
  RUBATO_FINISHED = 0, /* the job is finished, and the program holds the final state */
  RUBATO_LEFT = 1,     /* the job goes on without this worker: end the process, save nothing */
  RUBATO_STOPPED = 2   /* it cannot go on; the message is on stderr */
};

struct rubato_task {
  size_t size; /* sizeof(struct rubato_task), set by the caller once */
  int32_t kind;
  int32_t end;

  /* RUBATO_BIND: one pointer per unit, 64-byte aligned, zeroed */
  void* const* unit_memory;
  /* RUBATO_REPLACED, RUBATO_STORE */
  uint64_t unit;

  /* RUBATO_COMPUTE: which samples. The gradient, that of weight * mean loss, is to replace what is
   * in `gradient` (if the library adds up) or in buffer[buffer], or to be added to it. An empty
   * mini-batch gives a zero gradient, loss 0 and an unchanged private state. A program whose
   * gradients are its own may write `after` and `loss` as late as in RUBATO_SETTLE. */
  const int64_t* samples;
  uint64_t sample_count;
  double weight;
  uint64_t random_seed; /* seeds every random source of this mini-batch */
  int32_t logical;
  int32_t logical_workers;
  const void* before; /* private state */
  void* after;
  double* loss; /* mean loss of the mini-batch */
  int32_t accumulate;

  /* RUBATO_COMPUTE, RUBATO_APPLY, RUBATO_APPLY_BUFFER */
  int64_t step;  /* global, from 0 */
  int64_t epoch; /* from 0 */
  int64_t steps_per_epoch;
  int64_t total_steps;
  double rate_factor;             /* RUBATO_APPLY: multiplies the learning rate */
  int32_t leads;                  /* 1: of all workers, this one evaluates, logs and saves */
  int32_t workers;                /* of the job; 0 while this one prepares */
  int32_t hosts_begin, hosts_end; /* the logical workers that this worker hosts */

  float* gradient;
  int32_t buffer;
  int32_t from;
  float scale;
  /* RUBATO_APPLY: update only units with update[unit] != 0; null: all */
  const uint8_t* update;

  /* RUBATO_SAVE */
  const char* path;
  /* RUBATO_SAVE; RUBATO_END with RUBATO_FINISHED: the private state of logical worker 0, which a
   * job delivers. RUBATO_APPLY, RUBATO_APPLY_BUFFER: the same after this step, for those who
   * evaluate; may be null. */
  const void* final_private;
  /* RUBATO_COMPUTE: 1, 2: the first and second pass of an audit, whose result is only compared.
   * Data should be read anew. rubato_witness() tells what was seen. */
  int32_t audit;
};

typedef struct rubato_worker rubato_worker;

/* Prepares to train. Null: rubato_last_error() says why. Everything in `job` is copied. */
RUBATO_API rubato_worker* rubato_open(const struct rubato_job* job);
RUBATO_API int rubato_next(rubato_worker* worker, struct rubato_task* task);
/* The task at hand cannot be done; the job is told why. The next task is RUBATO_END. */
RUBATO_API int rubato_fail(rubato_worker* worker, const char* message);
/* Ends the worker, whatever it is doing, and returns the exit code for its process. */
RUBATO_API int rubato_close(rubato_worker* worker);

/* The share of a logical worker in a step, for a program that wants to fetch its samples early: may
 * be called between rubato_next() calls once there was a RUBATO_COMPUTE. Writes up to `capacity`
 * samples. Fails if shares are not known in advance (an adaptive job). */
struct rubato_share {
  size_t size;
  int64_t epoch;
  double weight;
  uint64_t random_seed;
  uint64_t sample_count;
};
RUBATO_API int rubato_get_share(rubato_worker* worker, int64_t step, int32_t logical,
                                int64_t* samples, uint64_t capacity, struct rubato_share* share);

/* Reports a number about the training (an accuracy) to the job's owner. It counts only on the
 * worker that leads, so all may call it, between rubato_open() and rubato_close(). The newest value
 * of each name is passed on about once a second. Fails if the name has a space or more than 64
 * characters, or is the 65th. */
RUBATO_API int rubato_report(rubato_worker* worker, const char* name, double value);

/* During an audit, between its RUBATO_COMPUTE and the next task: the hash of something that must be
 * equal in both passes and on all workers ("input": the data). With a null name, `text` says where
 * a difference probably comes from. */
RUBATO_API int rubato_witness(rubato_worker* worker, const char* name, uint32_t hash,
                              const char* text);

/* Trains to the end and returns the exit code for the process. `perform` does a task and returns 0,
 * or returns something else after it has written a message of at most `message_size` bytes. */
RUBATO_API int rubato_run(const struct rubato_job* job,
                          int (*perform)(void* context, const struct rubato_task* task,
                                         char* message, size_t message_size),
                          void* context);

/* Tells the job that its program uses the runtime: for a program that needs long before it opens
 * its worker. */
RUBATO_API void rubato_hello(void);

#ifdef __cplusplus
}
#endif

#endif
