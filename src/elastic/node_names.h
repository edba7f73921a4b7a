// Nodes: the machines on which the workers of a job run. Workers of one node share memory; nothing
// else may open it, so every name of shared memory carries the node.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::elastic {

// Environment variables with which a launcher tells its workers about their node.
inline constexpr const char* kNodeVariable = "RUBATO_NODE";
inline constexpr const char* kListenVariable = "RUBATO_LISTEN";
// Which board the newcomers of a node share while none of its workers is a member: a number that
// the launcher changes whenever the node has dropped out of the view. So what is left of former
// members never shares memory with newcomers.
inline constexpr const char* kBoardVariable = "RUBATO_BOARD";

struct NodeIdentity {
  std::string name;
  std::string listen = "127.0.0.1";  // where its workers accept connections
  int board = -1;                    // of kBoardVariable; -1: not given
};

// 1 to 32 letters, digits, '-', '_'.
bool is_node_name(std::string_view text);
// The host's name, as far as it can be one of a node.
std::string default_node_name();
// From the environment; an error names the variable.
Result<NodeIdentity> node_of_environment();

// All shared memory of a node's workers starts with this.
std::string node_prefix(const std::string& token, const std::string& node);
std::string worker_segment_name(const std::string& token, const std::string& node, int worker);
// The one that newcomers of a node share.
std::string board_name(const std::string& token, const std::string& node, int number);
// Of a worker that tries to found a view. Who comes second removes it, so nobody else may have it.
std::string founders_board_name(const std::string& token, const std::string& node, int worker);
// Where those who share a board keep what a worker of another node has exported. Not for the whole
// node: excluded workers of it that wake up late must not meet those who came after them.
std::string mirror_name(const std::string& board, int worker);

// An error unless the segment belongs to the node: memory of other machines cannot be opened, and
// on one machine that plays several nodes it must not be.
Status check_node_of_segment(const std::string& segment, const std::string& token,
                             const std::string& node);

}  // namespace rubato::elastic
