#include "membership/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

#include "elastic/membership/table.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

// One table for reading and writing. Words in brackets stand for what a fault has.
struct Phrase {
  Fault::Kind kind;
  std::string_view words;
};
constexpr std::array kPhrases = {
    Phrase{Fault::Kind::kKill, "kill [worker]"},
    Phrase{Fault::Kind::kStop, "stop [worker] for [duration] s"},
    Phrase{Fault::Kind::kBreak, "break the connection of [worker] and [other]"},
    Phrase{Fault::Kind::kTarget, "want [amount] workers on node [other node]"},
    Phrase{Fault::Kind::kMigrate, "replace [worker]"},
    Phrase{Fault::Kind::kLeave, "ask [worker] to leave"},
    Phrase{Fault::Kind::kRegistryDoubt, "doubt the registry for [duration] s"},
    Phrase{Fault::Kind::kSlow, "slow [worker] for [duration] s"},
    Phrase{Fault::Kind::kClock, "move the wall clock by [amount] s"},
    Phrase{Fault::Kind::kPartition,
           "cut off node [node] from nodes and registry [amount] for [duration] s"},
    Phrase{Fault::Kind::kCutLink,
           "cut the link from node [node] to node [other node] for [duration] s"},
    Phrase{Fault::Kind::kSlowLink,
           "slow the link from node [node] to node [other node] for [duration] s"},
    Phrase{Fault::Kind::kBreakStream, "break stream [other index] of [worker]"},
    Phrase{Fault::Kind::kEnd, "end the job"},
};
constexpr std::array kMoments = {
    Phrase{Fault::Kind::kKill, "when [moment worker] is [state]"},
    Phrase{Fault::Kind::kKill, "when view [number] is committed"},
    Phrase{Fault::Kind::kKill, "when a view is committed"},
    Phrase{Fault::Kind::kKill, "at event [number]"},
    Phrase{Fault::Kind::kKill, "when [moment worker] hears [message]"},
    Phrase{Fault::Kind::kKill, "at [at] s"},
};

// "stop [other node] for" -> "stop", "[other node]", "for"
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  bool bracket = false;
  std::string word;
  for (const char c : text) {
    if (c == '[') bracket = true;
    if (c == ']') bracket = false;
    if (c != ' ' || bracket) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

template <typename T>
bool to_number(const std::string& word, T& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

bool to_time(const std::string& word, Micros& time) {
  double seconds = 0;
  if (!to_number(word, seconds) || seconds < 0) return false;
  time = std::llround(seconds * 1e6);
  return true;
}

std::string time_text(Micros time) {
  std::string text = fmt::format("{}.{:06}", time / 1'000'000, time % 1'000'000);
  while (text.back() == '0') text.pop_back();
  return text.back() == '.' ? text.substr(0, text.size() - 1) : text;
}

std::optional<StateKind> state_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(StateKind::kGone); ++i) {
    if (to_string(static_cast<StateKind>(i)) == name) return static_cast<StateKind>(i);
  }
  return std::nullopt;
}

// --- Reading -------------------------------------------------------------------------------------

// Words that are read one after the other.
struct Words {
  std::vector<std::string> all;
  std::size_t next = 0;

  bool more() const { return next < all.size(); }
  std::string take() { return more() ? all[next++] : ""; }
};

// `worker 3`, `worker #3`, `that worker`
bool read_worker(Words& words, Fault& fault, int& worker) {
  const std::string first = words.take();
  const std::string second = words.take();
  if (first == "that" && second == "worker") {
    fault.at_whom = true;
    // `that worker or worker #3`: the moment may speak of none, or not come in time.
    if (!words.more() || words.all[words.next] != "or") return true;
    words.take();
    return read_worker(words, fault, worker);
  }
  if (first != "worker" || second.empty()) return false;
  fault.exact = second.front() != '#';
  return to_number(second.substr(fault.exact ? 0 : 1), worker);
}

bool read_node(Words& words, int& node) {
  const std::string name = words.take();
  if (name.size() != 1 || name[0] < 'a' || name[0] > 'z') return false;
  node = name[0] - 'a';
  return true;
}

bool read_moment_worker(Words& words, Moment& moment) {
  const std::string first = words.take();
  const std::string second = words.take();
  if (first == "any" && second == "worker") return true;
  int worker = 0;
  if (first != "worker" || !to_number(second, worker)) return false;
  moment.worker = worker;
  return true;
}

bool read_slot(const std::string& slot, Words& words, Fault& fault) {
  Moment& moment = *fault.when;
  if (slot == "[worker]") return read_worker(words, fault, fault.worker);
  if (slot == "[other]") return read_worker(words, fault, fault.other);
  if (slot == "[node]") return read_node(words, fault.worker);
  if (slot == "[other node]") return read_node(words, fault.other);
  if (slot == "[moment worker]") return read_moment_worker(words, moment);
  const std::string word = words.take();
  if (slot == "[other index]") return to_number(word, fault.other);
  if (slot == "[amount]") return to_number(word, fault.amount);
  if (slot == "[duration]") return to_time(word, fault.duration);
  if (slot == "[at]") return to_time(word, fault.at);
  if (slot == "[number]") return to_number(word, moment.number) && moment.number > 0;
  if (slot == "[message]") {
    while (moment.message < std::variant_size_v<Message> && message_name(moment.message) != word) {
      ++moment.message;
    }
    return moment.message < std::variant_size_v<Message>;
  }
  const std::optional<StateKind> state = state_named(word);
  if (!state) return false;
  moment.state = *state;
  return true;
}

bool matches(std::string_view phrase, Words& words, Fault& fault) {
  for (const std::string& word : split(phrase)) {
    if (word.front() == '[' ? !read_slot(word, words, fault) : words.take() != word) return false;
  }
  return true;
}

// The phrase that fits, and the fault with what it says.
template <std::size_t N>
bool read_phrase(const std::array<Phrase, N>& phrases, Words& words, Fault& fault,
                 std::size_t& which) {
  for (std::size_t i = 0; i < N; ++i) {
    Words attempt = words;
    Fault result = fault;
    result.kind = phrases[i].kind;
    result.when.emplace();
    if (!matches(phrases[i].words, attempt, result)) continue;
    words = attempt;
    fault = result;
    which = i;
    return true;
  }
  return false;
}

// `MOMENT[, after T s][, from T s][, within T s]: FAULT`; "" or what was expected.
std::string read_fault(const std::string& line, Fault& fault) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string::npos) return "a moment, a colon and a fault";
  std::string moment_text = line.substr(0, colon);
  for (char& c : moment_text) {
    if (c == ',') c = ' ';
  }
  Words moment{split(moment_text)};
  std::size_t which = 0;
  if (!read_phrase(kMoments, moment, fault, which))
    return "a moment, like 'at 0.5 s' or 'when any worker is frozen'";
  constexpr std::array kKinds = {Moment::Kind::kState, Moment::Kind::kView, Moment::Kind::kView,
                                 Moment::Kind::kEvent, Moment::Kind::kHears};
  std::optional<Moment> when;
  if (which < kKinds.size()) {
    when = fault.when;
    when->kind = kKinds[which];
  }
  while (moment.more()) {
    const std::string what = moment.take();
    Micros* const time = what == "after"    ? &fault.after
                         : what == "from"   ? &fault.at
                         : what == "within" ? &fault.patience
                                            : nullptr;
    if (time == nullptr || !to_time(moment.take(), *time) || moment.take() != "s") {
      return "'after', 'from' or 'within' and a time, like 'after 0.01 s'";
    }
  }
  Words words{split(line.substr(colon + 2))};
  if (!read_phrase(kPhrases, words, fault, which) || words.more()) {
    return "a fault, like 'kill worker 1'";
  }
  fault.when = when;
  return "";
}

std::string read_setting(Words words, Schedule& schedule) {
  const std::string name = words.take();
  if (name == "patient" && !words.more()) {
    schedule.patient = true;
    return "";
  }
  const std::string value = words.take();
  if (name == "postpone" && value == "event" && to_number(words.take(), schedule.postponed.event) &&
      words.take() == "behind" && to_number(words.take(), schedule.postponed.behind)) {
    return words.more() ? "nothing more" : "";
  }
  const bool known = (name == "seed" && to_number(value, schedule.seed)) ||
                     (name == "nodes" && to_number(value, schedule.nodes)) ||
                     (name == "workers" && to_number(value, schedule.workers)) ||
                     (name == "steps" && to_number(value, schedule.steps));
  const bool possible = schedule.nodes >= 1 && schedule.nodes <= 26 && schedule.workers >= 1 &&
                        schedule.workers <= kLogical && schedule.steps >= 1;
  return known && possible && !words.more() ? "" : "a setting, a fault or an expectation";
}

std::string read_expectation(const std::string& name, const std::string& rest, Expectation& to) {
  int number = 0;
  if (name == "causes") {
    to.causes = rest;
  } else if (name == "members") {
    to.members = rest;
  } else if (name == "violation") {
    to.violation = rest;
  } else if (name == "trace") {
    to.trace.push_back(rest);
  } else if (!to_number(rest, number)) {
    return "'causes', 'members', 'violation' or 'trace' and a text, or a number";
  } else if (name == "views") {
    to.views = number;
  } else if (name == "processes") {
    to.processes = number;
  } else if (name == "repeated") {
    to.repeated = number;
  } else {
    return "'views', 'processes' or 'repeated'";
  }
  return "";
}

// --- Writing -------------------------------------------------------------------------------------

std::string slot_text(const std::string& slot, const Fault& fault) {
  const auto worker = [&](int id) {
    return fmt::format("worker {}{}", fault.exact ? "" : "#", id);
  };
  if (slot == "[worker]" && fault.at_whom) return "that worker or " + worker(fault.worker);
  if (slot == "[worker]") return worker(fault.worker);
  if (slot == "[other]") return worker(fault.other);
  if (slot == "[node]") return std::string(1, static_cast<char>('a' + fault.worker % 26));
  if (slot == "[other node]") return std::string(1, static_cast<char>('a' + fault.other % 26));
  if (slot == "[other index]") return std::to_string(fault.other);
  if (slot == "[amount]") return std::to_string(fault.amount);
  if (slot == "[duration]") return time_text(fault.duration);
  if (slot == "[at]") return time_text(fault.at);
  if (slot == "[number]") return std::to_string(fault.when->number);
  if (slot == "[message]") return std::string(message_name(fault.when->message));
  if (slot == "[state]") return std::string(to_string(fault.when->state));
  return fault.when->worker ? fmt::format("worker {}", *fault.when->worker) : "any worker";
}

std::string fill(std::string_view phrase, const Fault& fault) {
  std::vector<std::string> words = split(phrase);
  for (std::string& word : words) {
    if (word.front() == '[') word = slot_text(word, fault);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string fault_text(Fault fault, int nodes) {
  if (fault.kind == Fault::Kind::kTarget || fault.kind == Fault::Kind::kPartition ||
      fault.kind == Fault::Kind::kCutLink || fault.kind == Fault::Kind::kSlowLink) {
    fault.worker %= nodes;
    fault.other %= nodes;
  }
  std::size_t moment = kMoments.size() - 1;
  if (fault.when) {
    const bool any = fault.when->number == 0;
    moment = fault.when->kind == Moment::Kind::kState   ? 0
             : fault.when->kind == Moment::Kind::kView  ? (any ? 2 : 1)
             : fault.when->kind == Moment::Kind::kEvent ? 3
                                                        : 4;
  }
  std::string text = fill(kMoments[moment].words, fault);
  if (fault.when && fault.after > 0) text += fmt::format(", after {} s", time_text(fault.after));
  if (fault.when && fault.at > 0) text += fmt::format(", from {} s", time_text(fault.at));
  if (fault.when && fault.patience > 0) {
    text += fmt::format(", within {} s", time_text(fault.patience));
  }
  for (const Phrase& phrase : kPhrases) {
    if (phrase.kind == fault.kind) text += ": " + fill(phrase.words, fault);
  }
  return text + "\n";
}

}  // namespace

Result<Scenario> parse_scenario(const std::string& text, const std::string& file) {
  Scenario scenario;
  std::istringstream lines(text);
  std::string line;
  bool head = true;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("#")) {
      if (head) scenario.story += line + "\n";
      continue;
    }
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    head = false;
    Words words{split(line)};
    std::string expected;
    if (words.all.front() == "expect" && words.all.size() >= 3) {
      const std::string& name = words.all[1];
      const std::string rest =
          line.substr(line.find(name, line.find("expect") + 6) + name.size() + 1);
      expected = read_expectation(name, rest, scenario.expected);
    } else if (words.all.front() == "at" || words.all.front() == "when") {
      Fault fault;
      expected = read_fault(line, fault);
      scenario.schedule.faults.push_back(fault);
    } else {
      expected = read_setting(words, scenario.schedule);
    }
    if (!expected.empty()) {
      return invalid_input(fmt::format("{}:{}: '{}': expected {}", file, number, line, expected));
    }
  }
  return scenario;
}

std::string to_text(const Scenario& scenario) {
  const Schedule& schedule = scenario.schedule;
  std::string text = scenario.story;
  text += fmt::format("seed {}\nnodes {}\nworkers {}\nsteps {}\n", schedule.seed, schedule.nodes,
                      schedule.workers, schedule.steps);
  if (schedule.patient) text += "patient\n";
  if (schedule.postponed.event > 0) {
    text += fmt::format("postpone event {} behind {}\n", schedule.postponed.event,
                        schedule.postponed.behind);
  }
  for (const Fault& fault : schedule.faults) text += fault_text(fault, schedule.nodes);
  const Expectation& expected = scenario.expected;
  if (expected.views) text += fmt::format("expect views {}\n", *expected.views);
  if (expected.processes) text += fmt::format("expect processes {}\n", *expected.processes);
  if (expected.repeated) text += fmt::format("expect repeated {}\n", *expected.repeated);
  if (expected.causes) text += "expect causes " + *expected.causes + "\n";
  if (expected.members) text += "expect members " + *expected.members + "\n";
  if (expected.violation) text += "expect violation " + *expected.violation + "\n";
  for (const std::string& line : expected.trace) text += "expect trace " + line + "\n";
  return text;
}

}  // namespace rubato::elastic::membership::sim
