#include "elastic/transport/message_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace rubato::elastic {
namespace {

namespace m = membership;

WorkerAddress address_of(int worker) {
  return {.id = worker,
          .node = "a",
          .host = "127.0.0.1",
          .port = 4000 + worker,
          .pid = 7,
          .segment = "rubato.t.a.worker.1",
          .board = "rubato.t.a.board.1"};
}

m::ViewPtr some_view() {
  View view;
  view.number = 9;
  view.first_step = 41;
  view.cause = "join";
  view.leader = 2;
  view.board = "b";
  view.members = {{address_of(2), {0, 3}}, {address_of(5), {3, 4}}};
  view.batch = 12;
  return std::make_shared<const View>(std::move(view));
}

std::vector<m::Message> all_kinds() {
  return {m::Join{address_of(3), "what", {{"blas", "open"}}},
          m::Accepted{},
          m::Refused{"because", true},
          m::Ready{false},
          m::Leave{},
          m::Bye{true},
          m::JobFinished{},
          m::Prepare{some_view(), {9, 2, 17}},
          m::Prepared{{9, 2, 17}},
          m::Freeze{10},
          m::Frozen{10, 40},
          m::Frozen{10, std::nullopt},
          m::Start{some_view(), "a", {"b", "c"}, {address_of(7)}},
          m::Broken{9, 5, ""},
          m::Broken{9, std::nullopt, "cut"}};
}

TEST(MessageText, IsReadAsItWasWritten) {
  const std::vector<m::Message> messages = all_kinds();
  EXPECT_EQ(std::variant_size_v<m::Message>, 13u);  // a new kind belongs into all_kinds()
  for (const m::Message& message : messages) {
    const nlohmann::json body = body_of(message);
    const auto read = parse_message(2, kind_of(message), body);
    ASSERT_TRUE(read) << body;
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(body_of(*read), body);
  }
  // The sender of a proposal is its leader, whatever it says.
  const auto prepare = parse_message(2, Message::kPrepare, body_of(messages[7]));
  EXPECT_EQ(std::get<m::Prepare>(*prepare).proposal, (m::Proposal{9, 2, 17}));
}

// A peer may be broken or hostile: fields that are missing, of another type or of another size.
TEST(MessageText, RefusesGarbage) {
  std::mt19937_64 random(20260107);
  const std::vector<nlohmann::json> odd = {nullptr,
                                           true,
                                           -1,
                                           1e300,
                                           "text",
                                           nlohmann::json::array(),
                                           nlohmann::json::object(),
                                           {{"view", {{"view", "x"}}}}};
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<m::Message> kinds = all_kinds();
    const m::Message& message = kinds[random() % kinds.size()];
    nlohmann::json body = body_of(message);
    if (body.empty() || random() % 8 == 0) {
      body = odd[random() % odd.size()];
    } else {
      auto field = body.begin();
      std::advance(field, static_cast<long>(random() % body.size()));
      if (random() % 3 == 0) {
        body.erase(field);
      } else {
        *field = odd[random() % odd.size()];
      }
    }
    const auto kind = static_cast<Message>(static_cast<int>(Message::kPing) + random() % 16);
    refused += parse_message(1, random() % 2 == 0 ? kind : kind_of(message), body) ? 0 : 1;
  }
  EXPECT_GT(refused, 8'000);
}

}  // namespace
}  // namespace rubato::elastic
