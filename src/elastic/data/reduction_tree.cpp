#include "elastic/data/reduction_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "elastic/data/float_sums.h"

namespace rubato::elastic {

namespace {

// Small enough that the chunks of a whole chain of partial sums stay in the first-level cache.
constexpr std::size_t kChunk = 1024;
// Of the postfix form: the tree over 2^31 logical workers has 31 levels, and two levels merged into
// one operation hold at most three sums while the fourth is computed.
constexpr std::size_t kMaxDepth = 3 * 16 + 1;

// Where a node of at least two logical workers is split.
int middle(LogicalRange node) {
  return node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
}

bool inside(LogicalRange inner, LogicalRange outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

template <typename Visit>
void for_each_root(LogicalRange node, LogicalRange hosted, const Visit& visit) {
  if (node.end <= hosted.begin || hosted.end <= node.begin) return;
  if (inside(node, hosted)) {
    visit(node);
    return;
  }
  const int mid = middle(node);
  for_each_root({node.begin, mid}, hosted, visit);
  for_each_root({mid, node.end}, hosted, visit);
}

// Leaves the sum over `node` in `buffer`; uses this buffer and higher ones.
void plan_node(LogicalRange node, int buffer, HostProgram& program) {
  program.buffers = std::max(program.buffers, buffer + 1);
  if (node.size() == 1) {
    program.steps.push_back({.logical = node.begin, .buffer = buffer});
    return;
  }
  const int mid = middle(node);
  plan_node({node.begin, mid}, buffer, program);
  if (node.end - mid == 1) {
    program.steps.push_back({.logical = mid, .buffer = buffer, .accumulate = true});
    return;
  }
  plan_node({mid, node.end}, buffer + 1, program);
  program.steps.back().merges.push_back({.into = buffer, .from = buffer + 1});
}

// Writes the postfix form of `node` and moves `next` past the roots inside it. False if the roots
// do not make up the node.
bool write_postfix(LogicalRange node, std::span<const LogicalRange> roots, std::size_t& next,
                   std::vector<std::int32_t>& postfix) {
  if (next == roots.size() || roots[next].begin != node.begin || !inside(roots[next], node)) {
    return false;
  }
  if (roots[next] == node) {
    postfix.push_back(static_cast<std::int32_t>(next++));
    return true;
  }
  if (node.size() == 1) return false;
  const int mid = middle(node);
  if (!write_postfix({node.begin, mid}, roots, next, postfix)) return false;
  const auto left_last = static_cast<std::ptrdiff_t>(postfix.size()) - 1;
  if (!write_postfix({mid, node.end}, roots, next, postfix)) return false;
  std::int32_t operation = -2;
  if (postfix[static_cast<std::size_t>(left_last)] == -2) {
    operation = -3;  // (a + b) + right
    if (postfix.back() == -2) {
      operation = -4;  // (a + b) + (c + d)
      postfix.pop_back();
    }
    postfix.erase(postfix.begin() + left_last);
  }
  postfix.push_back(operation);
  return true;
}

}  // namespace

std::vector<LogicalRange> subtree_roots(int logical_workers, LogicalRange hosted) {
  RUBATO_CHECK(inside(hosted, {0, logical_workers}), "the hosted range is outside the job");
  std::vector<LogicalRange> roots;
  if (hosted.size() == 0) return roots;
  for_each_root({0, logical_workers}, hosted, [&](LogicalRange root) { roots.push_back(root); });
  return roots;
}

int count_subtree_roots(int logical_workers, LogicalRange hosted) {
  RUBATO_CHECK(inside(hosted, {0, logical_workers}), "the hosted range is outside the job");
  int count = 0;
  if (hosted.size() == 0) return count;
  for_each_root({0, logical_workers}, hosted, [&](LogicalRange) { ++count; });
  return count;
}

HostProgram host_program(int logical_workers, LogicalRange hosted) {
  HostProgram program;
  program.buffers = 1;
  int buffer = 0;  // each previous root occupies one
  for (const LogicalRange root : subtree_roots(logical_workers, hosted)) {
    plan_node(root, buffer, program);
    program.roots.push_back({.range = root, .buffer = buffer});
    ++buffer;
  }
  return program;
}

Result<SumProgram> SumProgram::make(int logical_workers, std::span<const LogicalRange> roots) {
  if (logical_workers < 1) {
    return invalid_input(
        fmt::format("reduction over {} logical workers; expected at least one", logical_workers));
  }
  return make({0, logical_workers}, roots);
}

Result<SumProgram> SumProgram::make(LogicalRange node, std::span<const LogicalRange> roots) {
  SumProgram program;
  std::size_t next = 0;
  if (!write_postfix(node, roots, next, program.postfix_)) {
    if (next == roots.size()) {
      return invalid_input(fmt::format(
          "the exported sums end before logical worker {} of {}: export all sums of every worker",
          roots.empty() ? node.begin : roots.back().end, node.end));
    }
    return invalid_input(fmt::format(
        "exported sum {} covers [{}, {}), which is not a node of the tree over {} logical "
        "workers at this position: export subtree_roots() of each worker, in order",
        next, roots[next].begin, roots[next].end, node.size()));
  }
  if (next != roots.size()) {
    return invalid_input(
        fmt::format("exported sum {} covers [{}, {}), but all {} logical workers are covered "
                    "before it: remove it",
                    next, roots[next].begin, roots[next].end, node.size()));
  }
  program.inputs_ = roots.size();
  return program;
}

void SumProgram::run(std::span<const float* const> inputs, float scale, float* out,
                     std::size_t begin, std::size_t end) const {
  RUBATO_CHECK(inputs.size() == inputs_, "a sum needs all its inputs");
  // The last operation is left to the scaled sum, the only one that writes to `out`, which may be
  // an input. If there is no other operation, there are no partial sums to keep in the cache.
  const std::size_t operations = inputs_ == 1 ? 1 : postfix_.size() - 1;
  const std::size_t chunk = operations == inputs_ ? end - begin : kChunk;
  alignas(64) std::array<std::array<float, kChunk>, kMaxDepth> partial;
  std::array<const float*, kMaxDepth> stack;
  for (std::size_t at = begin; at < end; at += chunk) {
    const std::size_t count = std::min(chunk, end - at);
    std::size_t depth = 0;
    for (std::size_t k = 0; k < operations; ++k) {
      if (postfix_[k] >= 0) {
        stack[depth++] = inputs[static_cast<std::size_t>(postfix_[k])] + at;
        continue;
      }
      const auto terms = static_cast<std::size_t>(-postfix_[k]);
      depth -= terms;
      float* const sum = partial[depth].data();
      sum_arrays({&stack[depth], terms}, sum, count);
      stack[depth++] = sum;
    }
    sum_arrays_scaled({stack.data(), depth}, scale, out + at, count);
  }
}

void add_into(float* into, const float* from, std::size_t count) {
  const std::array<const float*, 2> inputs{into, from};
  sum_arrays(inputs, into, count);
}

Slice owned_slice(std::size_t size, int workers, int position) {
  RUBATO_CHECK(workers >= 1 && position >= 0 && position < workers,
               "the position is not that of a worker");
  constexpr std::size_t kFloatsPerLine = 64 / sizeof(float);
  const std::size_t lines = (size + kFloatsPerLine - 1) / kFloatsPerLine;
  const auto line_of = [&](int p) {
    return lines * static_cast<std::size_t>(p) / static_cast<std::size_t>(workers);
  };
  return {.begin = std::min(size, line_of(position) * kFloatsPerLine),
          .end = std::min(size, line_of(position + 1) * kFloatsPerLine)};
}

}  // namespace rubato::elastic
