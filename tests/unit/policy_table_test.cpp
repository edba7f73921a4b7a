#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "sched/policy.h"

namespace rubato {
namespace {

constexpr std::uint64_t kSeed = 1;

bool allowed(const ParamSpec& spec) {
  if (std::holds_alternative<bool>(spec.default_value)) return true;
  if (const auto* whole = std::get_if<std::int64_t>(&spec.default_value)) {
    return static_cast<double>(*whole) >= spec.low && static_cast<double>(*whole) <= spec.high;
  }
  if (const auto* number = std::get_if<double>(&spec.default_value)) {
    return *number >= spec.low && *number <= spec.high;
  }
  const auto& text = std::get<std::string>(spec.default_value);
  return std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end();
}

TEST(PolicyTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const PolicyInfo& info : policy_table()) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
  EXPECT_GE(names.size(), 9U);
}

TEST(PolicyTable, EveryPolicyIsDescribed) {
  for (const PolicyInfo& info : policy_table()) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_EQ(info.summary.find('\n'), std::string::npos);
    EXPECT_FALSE(info.source.empty());
    EXPECT_FALSE(info.needs.empty());
    for (const Knowledge need : info.needs) EXPECT_TRUE(info.needs_knowledge(need));
    std::set<std::string> names;
    for (const ParamSpec& spec : info.params) {
      SCOPED_TRACE(spec.name);
      EXPECT_TRUE(names.insert(spec.name).second);
      EXPECT_FALSE(spec.help.empty());
      EXPECT_TRUE(allowed(spec)) << to_string(spec.default_value) << " is not "
                                 << allowed_values(spec);
      if (std::holds_alternative<std::string>(spec.default_value)) {
        EXPECT_GE(spec.choices.size(), 2U);
      } else if (!std::holds_alternative<bool>(spec.default_value)) {
        EXPECT_LT(spec.low, spec.high);
      }
    }
  }
}

TEST(PolicyTable, EveryPolicyIsMadeWithItsDefaults) {
  for (const PolicyInfo& info : policy_table()) {
    const auto made = make_policy(info, {}, kSeed);
    ASSERT_TRUE(made.ok()) << info.name << ": " << made.error().message;
    EXPECT_NE(*made, nullptr) << info.name;
  }
}

TEST(PolicyTable, EveryPolicyIsMadeWithEachBoundAndChoice) {
  for (const PolicyInfo& info : policy_table()) {
    for (const ParamSpec& spec : info.params) {
      std::vector<std::string> values = spec.choices;
      if (std::holds_alternative<bool>(spec.default_value)) {
        values = {"true", "false", "1", "0"};
      } else if (std::holds_alternative<std::int64_t>(spec.default_value)) {
        values = {std::to_string(static_cast<std::int64_t>(spec.low)),
                  std::to_string(static_cast<std::int64_t>(spec.high))};
      } else if (std::holds_alternative<double>(spec.default_value)) {
        values = {to_string(ParamValue(spec.low)), to_string(ParamValue(spec.high))};
      }
      for (const std::string& value : values) {
        const auto made = make_policy(info, {{spec.name, value}}, kSeed);
        EXPECT_TRUE(made.ok()) << info.name << "." << spec.name << "=" << value;
      }
    }
  }
}

TEST(PolicyTable, ValuesOutOfRangeOrOfTheWrongKindAreRefused) {
  for (const PolicyInfo& info : policy_table()) {
    for (const ParamSpec& spec : info.params) {
      std::vector<std::string> bad{"", "nonsense", " ", "nan", "1e999", "0x1"};
      if (std::holds_alternative<std::int64_t>(spec.default_value)) {
        bad.push_back("1.5");
        bad.push_back(std::to_string(static_cast<std::int64_t>(spec.low) - 1));
        bad.push_back(std::to_string(static_cast<std::int64_t>(spec.high) + 1));
        bad.push_back("99999999999999999999");
      } else if (std::holds_alternative<double>(spec.default_value)) {
        bad.push_back(to_string(ParamValue(spec.low - 1)));
        bad.push_back(to_string(ParamValue(spec.high * 2 + 1)));
        bad.push_back("inf");
      } else if (std::holds_alternative<bool>(spec.default_value)) {
        bad.push_back("2");
        bad.push_back("True");
      }
      for (const std::string& value : bad) {
        const auto made = make_policy(info, {{spec.name, value}}, kSeed);
        ASSERT_FALSE(made.ok()) << info.name << "." << spec.name << "=" << value;
        EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
        EXPECT_EQ(made.error().message,
                  info.name + "." + spec.name + "=" + value + ": expected " + allowed_values(spec));
      }
    }
  }
}

TEST(PolicyTable, AnUnknownParameterIsRefusedWithTheNearestName) {
  const auto info = find_policy("fifo");
  ASSERT_TRUE(info.ok());
  const auto made = make_policy(**info, {{"placment", "best-fit"}}, kSeed);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "fifo.placment: unknown parameter (did you mean 'placement'?); parameters of fifo: "
            "placement");
  const auto far = make_policy(**info, {{"quantum", "1"}}, kSeed);
  ASSERT_FALSE(far.ok());
  EXPECT_EQ(far.error().message, "fifo.quantum: unknown parameter; parameters of fifo: placement");
}

TEST(PolicyTable, AnUnknownPolicyIsRefusedWithTheNearestName) {
  for (const PolicyInfo& info : policy_table()) {
    const auto found = find_policy(info.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &info);
  }
  const auto close = find_policy("tiresius");
  ASSERT_FALSE(close.ok());
  EXPECT_EQ(close.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(
      close.error().message.find("unknown policy 'tiresius' (did you mean 'tiresias'?); policies:"),
      0U);
  EXPECT_FALSE(find_policy("").ok());
  EXPECT_FALSE(find_policy("FIFO").ok());
}

// --- parameters ----------------------------------------------------------------------------------

// Remembers the parameters it was made with.
class Probe final : public Policy {
 public:
  Probe(const Params& params, Random random)
      : flag(params.flag("flag")),
        whole(params.integer("whole")),
        number(params.number("number")),
        choice(params.choice("choice")),
        first(random.next()) {
    latest = this;
  }
  static inline const Probe* latest = nullptr;
  Plan decide(const PolicyInput&) override { return {}; }

  bool flag;
  std::int64_t whole;
  double number;
  std::string choice;
  std::uint64_t first;
};

PolicyInfo probe() {
  return {.name = "probe",
          .summary = "",
          .source = "",
          .needs = {},
          .params = {{.name = "flag", .default_value = true},
                     {.name = "whole", .default_value = std::int64_t{5}, .low = 1, .high = 9},
                     {.name = "number", .default_value = 0.5, .low = 0, .high = 2.5},
                     {.name = "choice", .default_value = std::string("a"), .choices = {"a", "b"}}},
          .make = [](const Params& params, Random random) -> std::unique_ptr<Policy> {
            return std::make_unique<Probe>(params, random);
          }};
}

TEST(Params, DefaultsAndSettingsReachThePolicy) {
  const PolicyInfo info = probe();
  const auto defaults = make_policy(info, {}, 42);
  ASSERT_TRUE(defaults.ok());
  const Probe& plain = *Probe::latest;
  EXPECT_TRUE(plain.flag);
  EXPECT_EQ(plain.whole, 5);
  EXPECT_EQ(plain.number, 0.5);
  EXPECT_EQ(plain.choice, "a");
  EXPECT_EQ(plain.first, Random(42).next());
  const auto set = make_policy(
      info, {{"flag", "false"}, {"whole", "9"}, {"number", "2.5"}, {"choice", "b"}}, 43);
  ASSERT_TRUE(set.ok());
  const Probe& changed = *Probe::latest;
  EXPECT_FALSE(changed.flag);
  EXPECT_EQ(changed.whole, 9);
  EXPECT_EQ(changed.number, 2.5);
  EXPECT_EQ(changed.choice, "b");
  EXPECT_NE(changed.first, plain.first);
}

TEST(Params, WhatIsAllowedIsSaid) {
  const PolicyInfo info = probe();
  EXPECT_EQ(allowed_values(info.params[0]), "true or false");
  EXPECT_EQ(allowed_values(info.params[1]), "a whole number 1 to 9");
  EXPECT_EQ(allowed_values(info.params[2]), "0 to 2.5");
  EXPECT_EQ(allowed_values(info.params[3]), "one of a, b");
  EXPECT_EQ(to_string(ParamValue(true)), "true");
  EXPECT_EQ(to_string(ParamValue(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(ParamValue(0.25)), "0.25");
  EXPECT_EQ(to_string(ParamValue(std::string("x"))), "x");
  for (const Knowledge knowledge :
       {Knowledge::kNothing, Knowledge::kProfiledSpeed, Knowledge::kRemainingWork}) {
    EXPECT_NE(to_string(knowledge), "?");
  }
}

TEST(ParamsDeathTest, AskingForAParameterThatWasNotRegisteredStopsTheProgram) {
  const Params params({});
  EXPECT_DEATH(static_cast<void>(params.number("x")), "did not register");
}

}  // namespace
}  // namespace rubato
