// The fixed tree in which gradients are summed over the logical workers 0..N-1. Its shape depends
// only on N, so the floating-point order, and with it every bit of the sum, does not depend on
// which worker hosts which logical worker.
//
// A node covers a range. A range of one logical worker is a leaf. Any other range [a, b) has the
// children [a, a+h) and [a+h, b), where h is the largest power of two below b - a.
//
// A host runs its logical workers in order and keeps only partial sums (HostProgram). If it ends up
// with several maximal nodes, it exports each of them. The owner of each slice of the gradient
// finishes the rest of the tree (SumProgram).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "elastic/data/logical_range.h"

namespace rubato::elastic {

// The maximal nodes inside `hosted` of the tree over N logical workers, in order. They partition
// `hosted`; there are at most 2 log2(N).
std::vector<LogicalRange> subtree_roots(int logical_workers, LogicalRange hosted);
// Their number; O(log N), without allocation.
int count_subtree_roots(int logical_workers, LogicalRange hosted);

// How a host turns mini-batches into its roots with few gradient buffers.
struct HostStep {
  int logical = 0;  // compute this logical worker's gradient
  int buffer = 0;   // into this buffer
  // Add it to the content (a right leaf beside its left sibling) or replace the content.
  bool accumulate = false;
  struct Merge {
    int into = 0;
    int from = 0;
  };
  std::vector<Merge> merges;  // then buffer[into] += buffer[from], in this order
};
struct HostRoot {
  LogicalRange range;
  int buffer = 0;  // holds the sum over `range` after the last step
};
struct HostProgram {
  std::vector<HostStep> steps;
  std::vector<HostRoot> roots;
  int buffers = 0;  // buffers 0..buffers-1 are used
};
// Uses at most ceil(log2(hosted.size())) + roots - 1 buffers (at least one). For a whole tree of N
// that is max(1, ceil(log2 N)).
HostProgram host_program(int logical_workers, LogicalRange hosted);

// Finishes the tree over roots exported by all hosts, element by element.
class SumProgram {
 public:
  // For the sum over [0, N). `roots` in the order of their ranges. An error if they do not
  // partition [0, N) into nodes of the tree.
  static Result<SumProgram> make(int logical_workers, std::span<const LogicalRange> roots);
  // For the sum over `node`, which must be a node of the tree.
  static Result<SumProgram> make(LogicalRange node, std::span<const LogicalRange> roots);

  std::size_t inputs() const { return inputs_; }  // 0: it was not made
  // out[i] = scale * (tree sum of inputs[k][i]) for i in [begin, end). `out` may be one of the
  // inputs. Does not allocate. The bits are identical on every instruction set.
  void run(std::span<const float* const> inputs, float scale, float* out, std::size_t begin,
           std::size_t end) const;

 private:
  // Postfix: a value >= 0 pushes that input; -n replaces the n topmost by their sum, in the order
  // of float_sums.h. Two tree levels become one operation where possible, to save passes over the
  // memory.
  std::vector<std::int32_t> postfix_;
  std::size_t inputs_ = 0;
};

// into[i] += from[i]
void add_into(float* into, const float* from, std::size_t count);

// The part of a gradient of `size` floats that the worker at `position` of `workers` sums:
// contiguous, in order, cache-line aligned where possible.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
};
Slice owned_slice(std::size_t size, int workers, int position);

}  // namespace rubato::elastic
