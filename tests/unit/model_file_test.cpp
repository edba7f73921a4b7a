// Models as files: what is written can be read again, and a damaged file is refused, never
// believed.
#include "elastic/model/model_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "elastic/job/checkpoint.h"
#include "elastic/model/model_export.h"
#include "elastic/model/model_reader.h"

namespace rubato::elastic {
namespace {

class ModelFile : public testing::Test {
 protected:
  ModelFile() : folder_(testing::TempDir() + "rubato_model_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~ModelFile() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Some tensors of all types and many shapes, over one piece of memory.
  void make(std::uint64_t seed) {
    Random random(seed);
    const std::vector<std::string> types = {"F32", "F16", "BF16", "F64", "I64",
                                            "I32", "I16", "I8",   "U8",  "BOOL"};
    memory_.clear();
    places_.clear();
    const int count = random.between(0, 12);
    for (int i = 0; i < count; ++i) {
      TensorPlace place{.name = "layer." + std::to_string(i) + ".\"w\xc3\xa4\"",
                        .type = types[random.below(static_cast<std::uint32_t>(types.size()))],
                        .unit = 0,
                        .offset = memory_.size()};
      for (int d = random.between(0, 3); d > 0; --d) place.shape.push_back(random.between(0, 4));
      for (std::size_t b = 0; b < place.bytes(); ++b) {
        memory_.push_back(static_cast<std::byte>(random.below(256)));
      }
      places_.push_back(std::move(place));
    }
  }
  NamedTensors tensors() const {
    return {places_, [&](const TensorPlace&) { return std::span<const std::byte>(memory_); }};
  }
  void expect_same(const std::string& file) const {
    const auto read = read_model_file(file);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->size(), places_.size());
    const NamedTensors all = tensors();
    for (const NamedTensor& tensor : all.all()) {
      const auto found = std::find_if(read->begin(), read->end(), [&](const LoadedTensor& loaded) {
        return loaded.name == tensor.name;
      });
      ASSERT_NE(found, read->end()) << tensor.name;
      EXPECT_EQ(found->type, tensor.type);
      EXPECT_EQ(found->shape, tensor.shape);
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(),
                             tensor.bytes.end()));
    }
  }

  std::string folder_;
  std::vector<std::byte> memory_;
  std::vector<TensorPlace> places_;
};

TEST_F(ModelFile, WhatIsWrittenIsRead) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    for (const ModelFormat format : {ModelFormat::kTorch, ModelFormat::kSafetensors}) {
      ASSERT_TRUE(write_model_file(path("m"), format, tensors().all()).ok());
      expect_same(path("m"));
    }
  }
}

TEST_F(ModelFile, ADamagedFileIsRefusedOrHarmless) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    make(seed % 7);
    const ModelFormat format = seed % 2 == 0 ? ModelFormat::kTorch : ModelFormat::kSafetensors;
    ASSERT_TRUE(write_model_file(path("m"), format, tensors().all()).ok());
    std::string bytes = *read_file(path("m"));
    for (int change = random.between(1, 4); change > 0 && !bytes.empty(); --change) {
      const auto at = random.below(static_cast<std::uint32_t>(bytes.size()));
      if (random.chance(0.3))
        bytes.resize(at);
      else if (random.chance(0.3))
        bytes.insert(at, bytes.substr(at / 2, random.below(40)));
      else
        bytes[at] = static_cast<char>(random.below(256));
    }
    ASSERT_TRUE(write_file(path("broken"), bytes).ok());
    const auto read = read_model_file(path("broken"));
    EXPECT_TRUE(read.ok() || read.error().message.starts_with(path("broken")));
  }
}

TEST_F(ModelFile, ElementsThatAreNotInOrderAreSorted) {
  // A 2 x 3 matrix whose columns are contiguous.
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  memory_.assign(std::as_bytes(std::span(columns)).begin(),
                 std::as_bytes(std::span(columns)).end());
  places_ = {{.name = "w", .type = "F32", .shape = {2, 3}, .strides = {1, 2}, .unit = 0}};
  ASSERT_TRUE(write_model_file(path("m"), ModelFormat::kTorch, tensors().all()).ok());
  const auto read = read_model_file(path("m"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  std::vector<float> rows(6);
  std::memcpy(rows.data(), read->at(0).bytes.data(), 24);
  EXPECT_EQ(rows, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(ModelFile, PlacesThatCannotBeAreRefused) {
  const auto problem = [](TensorPlace place) {
    const Status checked = check_places({std::move(place)}, {64}, 8);
    return checked.ok() ? std::string() : checked.error().message;
  };
  EXPECT_EQ(problem({.name = "a", .type = "F32", .shape = {16}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "a", .type = "F32", .shape = {17}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "a", .type = "F32", .shape = {1}, .unit = 0, .offset = 61}), "");
  EXPECT_NE(problem({.name = "a", .type = "F32", .shape = {1}, .unit = 1}), "");
  EXPECT_NE(problem({.name = "a", .type = "F33", .shape = {1}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "", .type = "F32", .shape = {1}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "a", .type = "U8", .shape = {-1}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "a", .type = "U8", .shape = {1 << 30, 1 << 30}, .unit = 0}), "");
  EXPECT_NE(problem({.name = "a", .type = "U8", .shape = {2, 2}, .strides = {2, 2}, .unit = 0}),
            "");
  EXPECT_EQ(problem({.name = "a", .type = "I64", .unit = -1}), "");
  EXPECT_NE(problem({.name = "a", .type = "I64", .shape = {2}, .unit = -1}), "");
}

TEST_F(ModelFile, AFileAppearsWholeOrNotAtAll) {
  make(3);
  EXPECT_FALSE(write_model_file(path("no/m"), ModelFormat::kTorch, tensors().all()).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ModelFile, IsMadeFromTheNewestCheckpointThatFits) {
  make(5);
  const JobFolder job(folder_);
  EXPECT_NE(export_model(job, ModelFormat::kTorch, path("m")).error().message.find("not started"),
            std::string::npos);
  const TensorMap map{.description = "a job",
                      .state_bytes = memory_.size(),
                      .private_bytes = 0,
                      .tensors = places_};
  ASSERT_TRUE(write_tensor_map(job, map).ok());
  EXPECT_NE(export_model(job, ModelFormat::kTorch, path("m")).error().message.find("no checkpoint"),
            std::string::npos);
  auto checkpoints = CheckpointFolder::open(job.checkpoint_folder(), 5);
  ASSERT_TRUE(checkpoints.ok());
  const std::vector<std::byte> other(memory_.size());
  const auto write = [&](std::int64_t step, const std::string& about,
                         std::span<const std::byte> state) {
    ASSERT_TRUE(
        checkpoints->write({.step = step, .description = about, .parts = {state, {}}}).ok());
  };
  write(1, "a job", other);
  write(2, "a job", memory_);
  write(3, "another job", other);
  const auto exported = export_model(job, ModelFormat::kSafetensors, path("m"));
  ASSERT_TRUE(exported.ok()) << exported.error().message;
  EXPECT_EQ(exported->step, 2);
  expect_same(path("m"));
  write(4, "a job", std::span(other).first(other.size() / 2));
  EXPECT_FALSE(export_model(job, ModelFormat::kTorch, path("m")).ok());
  ASSERT_TRUE(write_file(job.tensors_file(), "{\"description\": 5}").ok());
  EXPECT_FALSE(export_model(job, ModelFormat::kTorch, path("m")).ok());
}

}  // namespace
}  // namespace rubato::elastic
