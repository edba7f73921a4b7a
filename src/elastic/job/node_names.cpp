#include "elastic/job/node_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kLongestName = 32;

bool is_node_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

bool is_node_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, is_node_letter);
}

std::string default_node_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "node";
  std::string name(host.data());
  name.resize(std::min({name.size(), name.find('.'), kLongestName}));
  std::erase_if(name, [](char c) { return !is_node_letter(c); });
  return name.empty() ? "node" : name;
}

Result<NodeIdentity> node_of_environment() {
  NodeIdentity identity{.name = default_node_name()};
  if (const char* name = std::getenv(kNodeVariable)) {
    if (!is_node_name(name)) {
      return invalid_input(
          fmt::format("{}: '{}' is not a valid node name: use up to 32 letters, digits, '-', '_'",
                      kNodeVariable, name));
    }
    identity.name = name;
  }
  if (const char* address = std::getenv(kListenVariable)) identity.listen = address;
  if (const char* board = std::getenv(kBoardVariable)) {
    const auto number = parse_int(board);
    if (!number || *number < 0) {
      return invalid_input(
          fmt::format("{} must be a number; the launcher sets it", kBoardVariable));
    }
    identity.board = static_cast<int>(*number);
  }
  return identity;
}

std::string node_prefix(const std::string& token, const std::string& node) {
  return fmt::format("rubato.{}.{}.", token, node);
}

std::string worker_segment_name(const std::string& token, const std::string& node, int worker) {
  return fmt::format("{}worker.{}", node_prefix(token, node), worker);
}

std::string board_name(const std::string& token, const std::string& node, int number) {
  return fmt::format("{}board.{}", node_prefix(token, node), number);
}

std::string founders_board_name(const std::string& token, const std::string& node, int worker) {
  return fmt::format("{}founded.{}", node_prefix(token, node), worker);
}

std::string mirror_name(const std::string& board, int worker) {
  return fmt::format("{}.mirror.{}", board, worker);
}

Status check_node_of_segment(const std::string& segment, const std::string& token,
                             const std::string& node) {
  if (segment.starts_with(node_prefix(token, node))) return ok_status();
  return invalid_input(
      fmt::format("shared memory '{}' does not belong to node '{}'", segment, node));
}

}  // namespace rubato::elastic
