#include "elastic/data/node_sums.h"

#include "base/check.h"

namespace rubato::elastic {

namespace {

struct Export {
  LogicalRange range;
  NodeSum::Source source;
};

// The sums of members that host one range together.
void append_sums(int logical_workers, LogicalRange together, std::span<const Export> exports,
                 std::vector<NodeSum>& sums) {
  std::size_t next = 0;
  for (const LogicalRange root : subtree_roots(logical_workers, together)) {
    NodeSum sum{.range = root, .sources = {}, .program = {}};
    std::vector<LogicalRange> parts;
    for (; next < exports.size() && exports[next].range.end <= root.end; ++next) {
      parts.push_back(exports[next].range);
      sum.sources.push_back(exports[next].source);
    }
    Result<SumProgram> program = SumProgram::make(root, parts);
    RUBATO_CHECK(program.ok(), "the members' sums are the maximal nodes of what they host");
    sum.program = std::move(*program);
    sums.push_back(std::move(sum));
  }
}

}  // namespace

std::vector<NodeSum> node_sums(int logical_workers, std::span<const LogicalRange> hosts,
                               std::span<const std::size_t> positions) {
  std::vector<NodeSum> sums;
  std::vector<Export> exports;
  for (std::size_t first = 0; first < positions.size();) {
    exports.clear();
    LogicalRange together = hosts[positions[first]];
    std::size_t next = first;
    for (; next < positions.size() && positions[next] == positions[first] + (next - first);
         ++next) {
      const LogicalRange hosted = hosts[positions[next]];
      together.end = hosted.end;
      for (const HostRoot& root : host_program(logical_workers, hosted).roots) {
        exports.push_back({root.range, {.position = positions[next], .buffer = root.buffer}});
      }
    }
    append_sums(logical_workers, together, exports, sums);
    first = next;
  }
  return sums;
}

}  // namespace rubato::elastic
