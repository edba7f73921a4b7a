// Nodes: the machines on which the workers of a job run. Only workers of the same node share
// memory, so every shared-memory name contains the node.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::elastic {

// Environment variables that tell a worker about its node. The launcher sets them.
inline constexpr const char* kNodeVariable = "RUBATO_NODE";
inline constexpr const char* kListenVariable = "RUBATO_LISTEN";
// The board that the newcomers of a node share while none of its workers is a member: a number that
// the launcher changes whenever the node has dropped out of the view. Remaining former members thus
// never share memory with newcomers.
inline constexpr const char* kBoardVariable = "RUBATO_BOARD";

struct NodeIdentity {
  std::string name;
  std::string listen = "127.0.0.1";  // address where its workers accept connections
  int board = -1;                    // value of kBoardVariable; -1: not set
};

// 1 to 32 letters, digits, '-', '_'.
bool is_node_name(std::string_view text);
// The host name, reduced to what is valid in a node name.
std::string default_node_name();
// Reads the environment; an error names the variable.
Result<NodeIdentity> node_of_environment();

// Common prefix of all shared memory of a node's workers.
std::string node_prefix(const std::string& token, const std::string& node);
std::string worker_segment_name(const std::string& token, const std::string& node, int worker);
// The board that newcomers of a node share.
std::string board_name(const std::string& token, const std::string& node, int number);
// The board of a worker that tries to found a view. A worker that loses the race removes it, so no
// other worker may use it.
std::string founders_board_name(const std::string& token, const std::string& node, int worker);
// Where workers that share a board keep what a worker of another node has exported. It is not
// shared by the whole node: excluded workers that wake up late must not interfere with their
// successors.
std::string mirror_name(const std::string& board, int worker);

// An error unless the segment belongs to the node. Memory of other machines cannot be opened; if
// one machine emulates several nodes, it must not be.
Status check_node_of_segment(const std::string& segment, const std::string& token,
                             const std::string& node);

}  // namespace rubato::elastic
