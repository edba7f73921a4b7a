#include "control/job_document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/random.h"
#include "control/job_fields.h"
#include "control/shell_words.h"

namespace rubato::control {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string problem_of(std::string_view text) {
  const auto document = parse_job_yaml(text, "job.yaml");
  return document.ok() ? "accepted" : document.error().message;
}

JobDocument accepted(std::string_view text) {
  const auto document = parse_job_yaml(text, "job.yaml");
  EXPECT_TRUE(document.ok()) << document.error().message;
  return document.ok() ? *document : JobDocument{};
}

constexpr std::string_view kEverything = R"(# a job with every field
name: night run
run: [./train, --seed, 7, "--note=a b"]
dir: /data/runs
env: {SEED: 1, NOTE: "x y"}
tenant: vision
priority: -2
mode: adaptive
devices: 2..16
sizes: power_of_two
batch: 128..4096
lr_rule: sqrt
epochs: 30
min_runtime: 10m
encrypt: true
checkpoint:
  every: 1.5m
  keep: 3
device_type: a100
env_from: {TOKEN: "file:/home/me/token"}
memory: 16GB
cpus: 2.5
user: alice
)";

TEST(JobDocument, CheckpointsOfAConsistentJobMayBeElsewhere) {
  const JobDocument d = accepted("run: a\ncheckpoint: {to: 'file:/shared/x'}\n");
  EXPECT_EQ(d.checkpoint_to, "file:/shared/x");
  const auto again = parse_job_json(to_json(d));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, d);
  EXPECT_EQ(problem_of("run: a\ncheckpoint: {to: /shared/x}\n"),
            "job.yaml:2:18: checkpoint.to: /shared/x; expected file: and an absolute path, such as "
            "file:/shared/checkpoints");
  for (const char* mode : {"adaptive", "opaque"}) {
    const std::string problem = problem_of(
        fmt::format("run: a\nmode: {}\ndevices: 1\ncheckpoint: {{to: 'file:/x'}}\n", mode));
    EXPECT_NE(problem.find("checkpoint.to: "), std::string::npos) << problem;
    EXPECT_NE(problem.find(mode), std::string::npos) << problem;
  }
}

TEST(JobDocument, ReadsEveryField) {
  const JobDocument d = accepted(kEverything);
  EXPECT_EQ(d.name, "night run");
  EXPECT_EQ(d.run, (Words{"./train", "--seed", "7", "--note=a b"}));
  EXPECT_EQ(d.dir, "/data/runs");
  EXPECT_EQ(d.env, (std::map<std::string, std::string>{{"NOTE", "x y"}, {"SEED", "1"}}));
  EXPECT_EQ(d.tenant, "vision");
  EXPECT_EQ(d.priority, -2);
  EXPECT_EQ(d.mode, ElasticMode::kAdaptive);
  EXPECT_EQ(d.min_devices, 2);
  EXPECT_EQ(d.max_devices, 16);
  EXPECT_TRUE(d.power_of_two_sizes);
  EXPECT_EQ(d.min_batch, 128);
  EXPECT_EQ(d.max_batch, 4096);
  EXPECT_EQ(d.lr_rule, LearningRateRule::kSqrt);
  EXPECT_EQ(d.epochs, 30);
  EXPECT_EQ(d.min_runtime_s, 600);
  EXPECT_EQ(d.encrypt, true);
  EXPECT_EQ(d.checkpoint_every_s, 90);
  EXPECT_EQ(d.checkpoint_keep, 3);
  EXPECT_EQ(d.device_type, "a100");
  EXPECT_EQ(d.env_from, (std::map<std::string, std::string>{{"TOKEN", "file:/home/me/token"}}));
  EXPECT_EQ(d.memory_bytes, 16'000'000'000);
  EXPECT_EQ(d.cpus, 2.5);
  EXPECT_EQ(d.user, "alice");
}

TEST(JobDocument, NeedsOnlyWhatToRun) {
  const JobDocument d = accepted("run: ./train\n");
  EXPECT_EQ(d.run, Words{"./train"});
  EXPECT_EQ(d.mode, ElasticMode::kConsistent);
  EXPECT_EQ(d.program, elastic::ProgramKind::kUnknown);
  EXPECT_FALSE(to_json(d).contains("mode"));  // so that this stays known
  EXPECT_EQ(d.min_devices, 1);
  EXPECT_EQ(d.max_devices, 8);
  EXPECT_EQ(d.logical_workers, 0);  // the program's own number
  EXPECT_EQ(job_title(d), "train");
}

TEST(JobDocument, TheModeSaysWhetherTheProgramUsesTheRuntime) {
  using elastic::ProgramKind;
  for (const char* text : {"{run: a, mode: consistent}", "{run: a, mode: rigid}",
                           "{run: a, mode: adaptive}", "{run: a, logical_workers: 2}"}) {
    EXPECT_EQ(accepted(text).program, ProgramKind::kRuntime) << text;
  }
  const JobDocument d = accepted("{run: a, mode: opaque, devices: 2, retries: 3, grace: 1m}");
  EXPECT_EQ(d.program, ProgramKind::kOpaque);
  EXPECT_EQ(d.mode, ElasticMode::kRigid);  // as the scheduler sees it
  EXPECT_EQ(mode_name(d), "opaque");
  EXPECT_EQ(d.retries, 3);
  EXPECT_EQ(d.grace_s, 60);
  EXPECT_EQ(accepted("{run: a, mode: opaque}").max_devices, 1);
  EXPECT_EQ(accepted("{run: a, mode: opaque}").grace_s, 30);
  EXPECT_EQ(accepted("{run: a, time_limit: 2h}").time_limit_s, 7200);
}

TEST(JobDocument, WaysToWriteDevices) {
  EXPECT_EQ(accepted("{run: a, devices: 4}").min_devices, 4);
  EXPECT_EQ(accepted("{run: a, devices: 4}").max_devices, 4);
  EXPECT_EQ(accepted("{run: a, devices: \"2..16\"}").max_devices, 16);
  EXPECT_EQ(accepted("{run: a, devices: 2 .. 16}").min_devices, 2);
  EXPECT_EQ(accepted("{run: a, mode: rigid, devices: 4}").max_devices, 4);
  EXPECT_EQ(accepted("{run: a, mode: rigid}").max_devices, 1);
  EXPECT_EQ(accepted("{run: a, logical_workers: 4}").max_devices, 4);
  EXPECT_EQ(accepted("{run: a, logical_workers: 300}").max_devices, 256);
}

TEST(JobDocument, WaysToWriteMemory) {
  EXPECT_EQ(accepted("{run: a, memory: 20000000}").memory_bytes, 20'000'000);
  EXPECT_EQ(accepted("{run: a, memory: 512MiB}").memory_bytes, std::int64_t{512} << 20);
  EXPECT_EQ(accepted("{run: a, memory: 2TB}").memory_bytes, 2'000'000'000'000);
  for (const char* bad : {"4XB", "-4GB", "GB", "1e9", "9999999999TB", "2 TB", "[1]"}) {
    EXPECT_NE(problem_of(fmt::format("{{run: a, memory: {}}}", bad)), "accepted") << bad;
  }
}

TEST(JobDocument, ErrorsNamePlaceFieldAndWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "job.yaml:1:1: nothing; expected fields, such as run: ./train"},
      {"- a\n", "job.yaml:1:1: a list; expected fields, such as run: ./train"},
      {"name: x\n", "job.yaml:1:1: `run` is missing; expected a program to run"},
      {"run: a\ndevcies: 3\n",
       "job.yaml:2:1: devcies: unknown field (did you mean 'devices'?); expected one of run, name, "
       "dir, upload, outputs, env, tenant, priority, mode, devices, sizes, logical_workers, batch, "
       "lr_rule, epochs, min_runtime, time_limit, retries, grace, encrypt, checkpoint, "
       "device_type, profile, env_from, "
       "memory, "
       "cpus, user, labels, after, array"},
      {"run: a\nenv_from: {TOKEN: secret}\n",
       "job.yaml:2:19: env_from.TOKEN: secret; expected file: and an absolute path, such as "
       "file:/home/me/token"},
      {"run: a\nmemory: 1MB\n",
       "job.yaml:2:9: memory: 1MB; expected bytes such as 512MB or 16GiB, at least 16MB"},
      {"run: a\nencrypt: maybe\n", "job.yaml:2:10: encrypt: maybe; expected true or false"},
      {"run: a\ncpus: 0\n", "job.yaml:2:7: cpus: 0; expected a number from 0.01 to 65536"},
      {"run: a\ncheckpoint: {evry: 3}\n",
       "job.yaml:2:14: checkpoint.evry: unknown field (did you mean 'every'?); expected one of "
       "every, keep, to"},
      {"run: a\nrun: b\n", "job.yaml:2:1: run: duplicate field"},
      {"run: a\ndevices: 0\n",
       "job.yaml:2:10: devices: 0; expected a whole number or a range such as 2..16, from 1 to "
       "256"},
      {"run: a\ndevices: 16..2\n",
       "job.yaml:2:10: devices: 16..2; expected a range, such as 2..16"},
      {"run: a\nmode: elastic\n",
       "job.yaml:2:7: mode: elastic; expected consistent | adaptive | rigid | opaque"},
      {"run: a\nmode: rigit\n",
       "job.yaml:2:7: mode: rigit; expected consistent | adaptive | rigid | opaque (did you mean "
       "'rigid'?)"},
      {"run: a\nmode: opaque\ndevices: 2..4\n",
       "job.yaml:3:10: devices: 2..4; an opaque job takes a single number"},
      {"run: a\nmode: opaque\nlogical_workers: 1\n",
       "job.yaml:3:18: logical_workers: only for consistent and rigid jobs; an opaque job has one "
       "process"},
      {"run: a\nretries: 1\n",
       "job.yaml:2:10: retries: only for opaque jobs; this job's mode is consistent; others "
       "continue from their checkpoint"},
      {"run: a\nmode: rigid\ngrace: 1s\n",
       "job.yaml:3:8: grace: only for opaque jobs; this job's mode is rigid; others continue from "
       "their checkpoint"},
      {"run: a\ntime_limit: 0\n",
       "job.yaml:2:13: time_limit: 0; expected a duration such as 90, 90s, 15m, 2h or 1d, from 1 "
       "to "
       "31536000 s"},
      {"run: a\nmode: rigid\ndevices: 2..4\n",
       "job.yaml:3:10: devices: 2..4; a rigid job takes a single number"},
      {"run: a\nbatch: 128\n",
       "job.yaml:2:8: batch: only for adaptive jobs; this job's mode is consistent"},
      {"run: a\nlr_rule: none\n",
       "job.yaml:2:10: lr_rule: only for adaptive jobs; this job's mode is consistent"},
      {"run: a\nmode: adaptive\nlogical_workers: 4\n",
       "job.yaml:3:18: logical_workers: only for consistent and rigid jobs; an adaptive job has as "
       "many logical workers as devices"},
      {"run: a\ndevices: 4..8\nlogical_workers: 2\n",
       "job.yaml:3:18: logical_workers: 2; 2 logical workers can use at most 2 of the 8 devices; "
       "write devices: 2 or logical_workers: 8"},
      {"run: a\ndevices: 2..16\nlogical_workers: 4\n",
       "job.yaml:3:18: logical_workers: 4; 4 logical workers can use at most 4 of the 16 devices; "
       "write devices: 2..4 or logical_workers: 16"},
      {"run: a\ndevices: 5..7\nsizes: power_of_two\n",
       "job.yaml:2:10: devices: no power of two in 5..7, but `sizes` is power_of_two"},
      {"run: a\ncheckpoint: 30s\n",
       "job.yaml:2:13: checkpoint: 30s; expected fields, such as {every: 30s, keep: 2}"},
      {"run: a\ncheckpoint: {every: soon}\n",
       "job.yaml:2:21: checkpoint.every: soon; expected a duration such as 90, 90s, 15m, 2h or 1d, "
       "from 0.01 to 31536000 s"},
      {"run: a\nenv: {1X: 2}\n",
       "job.yaml:2:7: env.1X: expected a name of letters, digits and _, not starting with a digit"},
      {"run: a\nenv: {X: [1]}\n", "job.yaml:2:10: env.X: a list; expected a string"},
      {"run: []\n",
       "job.yaml:1:6: run: a list; expected a program with its arguments, as a list or as one "
       "line"},
      {"run: [a, {b: c}]\n", "job.yaml:1:10: run[1]: a group of fields; expected a word"},
      {"run: a > log\n",
       "job.yaml:1:6: run: '>' has a special meaning in a shell, but `run` does not use one: quote "
       "it, write `run` as a list, or run [sh, -c, \"...\"]"},
      {"run: 'a \"b'\n", "job.yaml:1:6: run: unclosed double quote (\")"},
      {"run: a\nname:\n", "job.yaml:2:1: name: nothing; expected a string"},
      {"run: a\nname: \"a,b\"\n",
       "job.yaml:2:7: name: \"a,b\"; expected printable ASCII characters except comma, quote and "
       "backslash"},
      {"run: &x a\nname: *x\n", "job.yaml:1:6: anchors (&name) are not allowed"},
      {"run: !!str a\n", "job.yaml:1:6: tags (!name) are not allowed"},
      {"run: a\n---\nrun: b\n", "job.yaml:2:1: a second document in the same file"},
      {"run: a\nenv: {a: {b: {c: {d: e}}}}\n", "job.yaml:2:18: nested too deeply"},
      {"run: [a\n", ""},
      {"run: a\n\tname: b\n", ""},
      {"run: \xff\n", "job.yaml: this file is not UTF-8; expected YAML"},
      {std::string("run: a\0b\n", 9), "job.yaml: this file contains a zero byte; expected YAML"},
      {"run: \"a\\0b\"\n", "job.yaml:1:6: this text contains a zero byte"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string problem = problem_of(text);
    if (expected.empty()) {
      EXPECT_TRUE(problem.starts_with("job.yaml:")) << text << problem;
    } else {
      EXPECT_EQ(problem, expected) << text;
    }
  }
}

TEST(JobDocument, SizesAreLimited) {
  EXPECT_EQ(problem_of("run: " + std::string(kLongestDocument, 'a')),
            "job.yaml: the document is larger than 64 KiB");
  EXPECT_EQ(problem_of("name: " + std::string(201, 'a')).substr(0, 18), "job.yaml:1:7: name");
  std::string words = "run: [a";
  for (int i = 0; i < 1024; ++i) words += ", b";
  EXPECT_EQ(problem_of(words + "]"), "job.yaml:1:6: run: 1025 words; expected at most 1024");
  std::string env = "run: a\nenv:\n";
  for (int i = 0; i < 257; ++i) env += fmt::format("  V{}: 1\n", i);
  EXPECT_EQ(problem_of(env), "job.yaml:3:3: env: 257 variables; expected at most 256");
  json large{{"run", "a"}, {"env", json::object()}};
  for (int i = 0; i < 20000; ++i) large["env"][fmt::format("V{}", i)] = "1";
  const auto refused = parse_job_json(large);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("larger than 64 KiB"), std::string::npos);
}

TEST(JobDocument, JsonErrorsNameThePath) {
  const auto problem = [](const json& object) {
    const auto document = parse_job_json(object);
    return document.ok() ? "accepted" : document.error().message;
  };
  EXPECT_EQ(problem({{"run", "a"}, {"checkpoint", {{"every", true}}}}),
            "/checkpoint/every: true; expected a duration such as 90, 90s, 15m, 2h or 1d, from "
            "0.01 to 31536000 s");
  EXPECT_EQ(problem({{"run", {"a", 3, nullptr}}}), "/run/2: nothing; expected a word");
  EXPECT_EQ(problem({{"run", "a"}, {"name", 3}}), "/name: 3; expected a string");
  EXPECT_EQ(problem({{"run", "a"}, {"priority", "3"}}),
            "/priority: \"3\"; expected a whole number from -1000 to 1000");
  EXPECT_EQ(problem({{"run", "a"}, {"priority", 1.5}}),
            "/priority: 1.5; expected a whole number from -1000 to 1000");
  EXPECT_EQ(problem({{"run", "a"}, {"device", 3}}).substr(0, 46),
            "/device: unknown field (did you mean 'devices'");
  EXPECT_EQ(problem({{"run", "a"}, {"name", "\xff"}}), "/name: this text is not UTF-8");
  EXPECT_EQ(problem(json::array()), "/: a list; expected fields, such as run: ./train");
  EXPECT_EQ(problem(nullptr), "/: nothing; expected fields, such as run: ./train");
}

TEST(JobDocument, CanonicalJsonReadsBackAsTheSameDocument) {
  for (const std::string_view text :
       {kEverything, std::string_view("run: a"), std::string_view("{run: a, mode: rigid}"),
        std::string_view("{run: a, devices: 2..4, logical_workers: 4, checkpoint: {every: 0.5}}"),
        std::string_view("{run: a, mode: opaque, retries: 2, grace: 5, time_limit: 1d}"),
        std::string_view("{run: 'a \"b c\" d', mode: adaptive, batch: 64}")}) {
    const JobDocument document = accepted(text);
    const json canonical = to_json(document);
    const auto again = parse_job_json(canonical);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, document) << canonical;
    EXPECT_EQ(to_json(*again), canonical);
    const auto stored = stored_document(parse_json_or_throw(compact_json(canonical)));
    ASSERT_TRUE(stored.ok());
    EXPECT_EQ(*stored, document);
  }
}

TEST(JobDocument, DurationsAsPeopleWriteThem) {
  EXPECT_EQ(*parse_duration("90"), 90);
  EXPECT_EQ(*parse_duration("90s"), 90);
  EXPECT_EQ(*parse_duration("15m"), 900);
  EXPECT_EQ(*parse_duration("1.5h"), 5400);
  EXPECT_EQ(*parse_duration("1d"), 86400);
  for (const char* bad : {"", "s", "-1", "1w", "1 h", "h1", "nan", "inf", "1e999", "1hh"}) {
    EXPECT_FALSE(parse_duration(bad).ok()) << bad;
  }
}

TEST(JobDocument, SchemaHasEveryFieldAndItsDefault) {
  const json schema = job_schema();
  EXPECT_EQ(schema["required"], json::array({"run"}));
  const json& properties = schema["properties"];
  const json document = to_json(accepted(kEverything));
  for (const auto& [name, value] : document.items()) EXPECT_TRUE(properties.contains(name)) << name;
  EXPECT_EQ(properties["devices"]["default"], "1..8");
  EXPECT_EQ(properties["mode"]["enum"], json::array({"consistent", "adaptive", "rigid", "opaque"}));
  EXPECT_EQ(properties["checkpoint"]["properties"]["keep"]["default"], 2);
  EXPECT_FALSE(properties["run"].contains("default"));
}

TEST(ShellWords, SplitsAsAShellDoes) {
  const std::vector<std::pair<std::string, Words>> cases{
      {"", {}},
      {"  \t\n ", {}},
      {"a b  c", {"a", "b", "c"}},
      {"a 'b c' \"d e\"", {"a", "b c", "d e"}},
      {"a'b'\"c\"d", {"abcd"}},
      {"'' \"\"", {"", ""}},
      {R"(a\ b \\ \' \$)", {"a b", "\\", "'", "$"}},
      {R"("\" \\ \$ \` \n")", {R"(" \ $ ` \n)"}},
      {"'a\\b$`|'", {"a\\b$`|"}},
      {"a \\\n b\\\nc", {"a", "bc"}},
      {"*.txt ~ #x {a,b} [c]?", {"*.txt", "~", "#x", "{a,b}", "[c]?"}},
  };
  for (const auto& [text, expected] : cases) {
    const auto words = shell_words(text);
    ASSERT_TRUE(words.ok()) << text << ": " << words.error().message;
    EXPECT_EQ(*words, expected) << text;
  }
  for (const char* bad : {"'", "\"", "a\\", "a | b", "$HOME", "\"$HOME\"", "`a`", "a; b", "(a)",
                          "a && b", "<a", "\"\\"}) {
    EXPECT_FALSE(shell_words(bad).ok()) << bad;
  }
}

// Changes a document byte by byte. The result is always an error or a document that survives a
// round trip.
TEST(JobDocument, GarbageIsRefusedOrReadBackTheSame) {
  int accepted_count = 0;
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::string text(kEverything);
    constexpr std::string_view kInteresting = "\n\t :,[]{}&*!|>'\"%@`#-?\\0..9a\x80\xff~";
    const int changes = random.between(1, 6);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(text.size()));
      const char c = random.chance(0.7) ? kInteresting[random.below(kInteresting.size())]
                                        : static_cast<char>(random.below(256));
      switch (random.below(4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, random.below(20));
          break;
        default:
          text.insert(at, text.substr(random.below(static_cast<std::uint32_t>(text.size())),
                                      random.below(30)));
      }
    }
    const auto document = parse_job_yaml(text, "f");
    if (!document.ok()) {
      ASSERT_TRUE(document.error().message.starts_with("f")) << document.error().message;
      continue;
    }
    ++accepted_count;
    const auto again = parse_job_json(parse_json_or_throw(compact_json(to_json(*document))));
    ASSERT_TRUE(again.ok()) << again.error().message << "\n" << text;
    ASSERT_EQ(*again, *document) << text;
  }
  EXPECT_GT(accepted_count, 500);  // the test covers both outcomes
}

}  // namespace
}  // namespace rubato::control
