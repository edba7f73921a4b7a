// Clients that send too many, too large, too slow or malformed requests.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "api/api_fixture.h"
#include "api/raw_socket.h"
#include "base/json_text.h"
#include "base/random.h"

namespace rubato::api {
namespace {

using nlohmann::json;

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

class LimitsTest : public ApiTest {
 protected:
  std::string exchange(const std::string& bytes) {
    const RawSocket client(server_->port());
    client.send(bytes);
    return client.read_to_end();
  }
  std::string get(const std::string& path, const std::string& more = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + admin_ + "\r\n" +
           more + "\r\n";
  }
  bool answers() { return ask("GET", "/healthz", "").status == 200; }
};

TEST_F(LimitsTest, LargeBodies) {
  const std::string large(2'000'000, 'a');
  EXPECT_EQ(ask_raw("POST", "/api/v1/jobs", admin_, large, {}).status, 413);
  EXPECT_EQ(status_of(exchange("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: "
                               "99999999999999999999999999\r\n\r\n")),
            413);
  EXPECT_TRUE(answers());
}

TEST_F(LimitsTest, PlansAtATime) {
  const json document = {{"run", {"/bin/true"}}};
  ServerOptions options;
  options.plans = 0;
  start_server(options);
  const Got refused = ask("POST", "/api/v1/plan", alice_, document);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.json["error"]["code"], "too-many-plans");
  EXPECT_EQ(refused.headers.find("Retry-After")->second, "1");
  EXPECT_TRUE(answers());

  // With many plans at once, each is made or refused, and afterwards a place is free again.
  options.plans = 1;
  start_server(options);
  std::atomic<int> made{0};
  std::atomic<int> other{0};
  std::vector<std::thread> clients(8);
  for (std::thread& client : clients) {
    client = std::thread([&] {
      for (int k = 0; k < 10; ++k) {
        const int status = ask_raw("POST", "/api/v1/plan", alice_, compact_json(document),
                                   {{"Content-Type", "application/json"}})
                               .status;
        made += status == 200 ? 1 : 0;
        other += status != 200 && status != 429 ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GE(made, 1);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(ask("POST", "/api/v1/plan", alice_, document).status, 200);
}

TEST_F(LimitsTest, LargeHeads) {
  EXPECT_EQ(status_of(exchange(get("/healthz", "X: " + std::string(9'000, 'a') + "\r\n"))), 431);
  EXPECT_EQ(status_of(exchange(get("/" + std::string(9'000, 'a')))), 431);
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(status_of(exchange(get("/healthz", many))), 431);
  EXPECT_EQ(status_of(exchange("GET /" + std::string(100'000, 'a'))), 431);
  EXPECT_TRUE(answers());
}

TEST_F(LimitsTest, MalformedRequests) {
  for (const std::string& bytes : {
           std::string("\x16\x03\x01\x02\0\x01", 6),  // TLS to a plain port
           std::string("hello\r\n\r\n"),
           std::string("GET\r\n\r\n"),
           std::string("GET /healthz\r\n\r\n"),
           std::string("GET /healthz HTTP/3\r\n\r\n"),
           std::string("GET healthz HTTP/1.1\r\n\r\n"),
           std::string("GET http://x/healthz HTTP/1.1\r\n\r\n"),
           std::string("GET /healthz HTTP/1.1\nHost: x\n\n"),
           std::string("GET /healthz HTTP/1.1\r\nHost x\r\n\r\n"),
           std::string("GET /healthz HTTP/1.1\r\n: x\r\n\r\n"),
           std::string("GET /healthz HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
           std::string("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
           std::string("GET /heal\0thz HTTP/1.1\r\n\r\n", 26),
           std::string("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
           std::string(
               "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
           std::string("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 0x10\r\n\r\n"),
           std::string("POST /api/v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           std::string("POST /api/v1/jobs HTTP/1.1\r\nContent-Encoding: gzip\r\n"
                       "Content-Length: 2\r\n\r\nab"),
       }) {
    const std::string answer = exchange(bytes);
    EXPECT_EQ(status_of(answer), 400) << bytes << " -> " << answer;
    EXPECT_NE(answer.find("{\"error\":{\"code\":\"malformed-request\""), std::string::npos)
        << answer;
  }
  EXPECT_EQ(status_of(exchange("BREW /pot HTTP/1.1\r\n\r\n")), 405);
  EXPECT_TRUE(answers());
}

TEST_F(LimitsTest, RequestsOneAfterAnotherAndAtOnce) {
  const RawSocket client(server_->port());
  client.send("\r\n" + get("/healthz") + get("/api/v1/cluster") +
              get("/nowhere", "Connection: close\r\n"));
  const std::string answers = client.read_to_end();
  EXPECT_NE(answers.find("\"ok\""), std::string::npos);
  EXPECT_NE(answers.find("\"policy\""), std::string::npos);
  EXPECT_NE(answers.find("HTTP/1.1 404"), std::string::npos);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(LimitsTest, ABodyThatIsAnnouncedFirst) {
  const RawSocket client(server_->port());
  const std::string body = R"({"run": ["/bin/true"]})";
  client.send("POST /api/v1/jobs HTTP/1.1\r\nAuthorization: Bearer " + alice_ +
              "\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(status_of(client.read_until("\r\n\r\n")), 100);
  client.send(body);
  EXPECT_EQ(status_of(client.read_to_end()), 201);
}

TEST_F(LimitsTest, ARequestThatStopsHalfway) {
  start_server({.limits = {.request = {.request_s = 0.3, .idle_s = 0.3}}});
  EXPECT_EQ(status_of(exchange("GET /healthz HT")), 408);
  EXPECT_EQ(status_of(exchange("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")),
            408);
  EXPECT_EQ(exchange(""), "");  // idle: closed without a response
  start_server({});  // its timeouts are long: the connection closes because the client is gone
  const RawSocket half(server_->port());
  half.send("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  half.end_sending();
  EXPECT_EQ(half.read_to_end(), "");
  EXPECT_EQ(ask("GET", "/api/v1/jobs", admin_).json["jobs"].size(), 0U);
}

TEST_F(LimitsTest, SlowAndIdleClientsDoNotKeepOthersOut) {
  // No connection is closed because of a timeout.
  start_server({.limits = {.request = {.request_s = 1000, .idle_s = 1000}, .connections = 20}});
  std::vector<RawSocket> slow;
  for (int i = 0; i < 50; ++i) {
    slow.emplace_back(server_->port());
    ASSERT_TRUE(slow.back().connected());
    if (i % 2 == 0) slow.back().send("GET /heal");
    ASSERT_TRUE(answers()) << i;
  }
  // The first connections were pushed out, the last ones are still open.
  EXPECT_EQ(slow.front().read_to_end(), "");
  slow.back().send("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(slow.back().read_to_end()), 200);
}

TEST_F(LimitsTest, RatePerToken) {
  start_server({.per_token = {.per_second = 0.01, .burst = 3}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 200);
  const Got got = ask("GET", "/api/v1/jobs", alice_);
  EXPECT_EQ(got.status, 429);
  EXPECT_GE(std::atoi(got.headers.find("Retry-After")->second.c_str()), 1);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", bob_).status, 200);
  EXPECT_TRUE(answers());
}

TEST_F(LimitsTest, RatePerAddress) {
  start_server({.per_address = {.per_second = 0.01, .burst = 2}});
  EXPECT_TRUE(answers());
  EXPECT_EQ(ask("GET", "/api/v1/jobs", "wrong").status, 401);
  EXPECT_EQ(ask("GET", "/healthz", "").status, 429);
}

TEST_F(LimitsTest, StreamsAreBounded) {
  start_server({.streams = 2});
  const auto open = [&] {
    RawSocket client(server_->port());
    client.send(get("/api/v1/events", "Accept: text/event-stream\r\n"));
    return client;
  };
  {
    std::vector<RawSocket> streams;
    for (int i = 0; i < 2; ++i) {
      streams.push_back(open());
      EXPECT_EQ(status_of(streams.back().read_until("\r\n\r\n")), 200);
    }
    const Got third =
        ask("GET", "/api/v1/events", admin_, nullptr, {{"Accept", "text/event-stream"}});
    EXPECT_EQ(third.status, 503);
    EXPECT_EQ(third.json["error"]["code"], "too-many-streams");
    EXPECT_EQ(ask("GET", "/api/v1/events", admin_).status, 200);  // a list is not a stream
  }
  // The places are returned when the clients are gone.
  const Clock::time_point deadline = after_seconds(120);
  while (Clock::now() < deadline) {
    const RawSocket again = open();
    if (status_of(again.read_until("\r\n\r\n")) == 200) return;
  }
  FAIL() << "the places of disconnected streams were never returned";
}

TEST_F(LimitsTest, GarbageOnTheSocket) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::string good = get("/api/v1/jobs", "Content-Length: 5\r\n") + "hello";
  for (int i = 0; i < 300; ++i) {
    std::string bytes;
    if (random.chance(0.5)) {  // a request with some bytes changed
      bytes = good;
      for (int k = random.between(1, 8); k > 0; --k) {
        bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] =
            static_cast<char>(random.below(256));
      }
    } else {
      for (int k = random.between(1, 400); k > 0; --k) {
        bytes += static_cast<char>(random.below(256));
      }
    }
    const RawSocket client(server_->port());
    client.send(bytes);
    client.end_sending();
    const int status = status_of(client.read_to_end());
    EXPECT_LT(status, 500) << i;
  }
  EXPECT_TRUE(answers());
}

TEST_F(LimitsTest, ListeningBeyondLoopbackNeedsTls) {
  const auto start = [&](const ServerOptions& options) {
    return Server::start(*controller_, options);
  };
  const auto refused = start({.listen = "0.0.0.0:0"});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("TLS"), std::string::npos);
  EXPECT_TRUE(start({.listen = "0.0.0.0:0", .insecure = true}).ok());
  EXPECT_TRUE(start({.listen = "localhost:0"}).ok());
  for (const char* wrong : {"", "7117", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "::1:5",
                            "127.0.0.1:70000", "no.such.host.invalid:1"}) {
    EXPECT_FALSE(start({.listen = wrong}).ok()) << wrong;
  }
  const std::string taken = "127.0.0.1:" + std::to_string(server_->port());
  const auto second = start({.listen = taken});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
}

// Writes a self-signed certificate for 127.0.0.1 and its key.
void write_certificate(const std::string& certificate_file, const std::string& key_file) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  std::FILE* file = std::fopen(certificate_file.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(key_file.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TEST_F(LimitsTest, Tls) {
  const std::string certificate = folder_ + "/cert.pem";
  const std::string key = folder_ + "/key.pem";
  write_certificate(certificate, key);
  EXPECT_FALSE(Server::start(*controller_, {.tls_certificate = certificate}).ok());
  EXPECT_FALSE(
      Server::start(*controller_, {.tls_certificate = certificate, .tls_key = certificate}).ok());
  start_server({.tls_certificate = certificate, .tls_key = key});
  EXPECT_TRUE(server_->url().starts_with("https://"));
  httplib::SSLClient client("127.0.0.1", server_->port());
  client.enable_server_certificate_verification(false);
  client.set_bearer_token_auth(alice_);
  client.set_keep_alive(true);
  client.set_read_timeout(120);
  for (int i = 0; i < 3; ++i) {
    const auto made = client.Post("/api/v1/jobs", R"({"run": ["/bin/true"]})", "application/json");
    ASSERT_TRUE(made);
    EXPECT_EQ(made->status, 201);
  }
  httplib::SSLClient strict("127.0.0.1", server_->port());  // an unknown certificate
  EXPECT_FALSE(strict.Get("/healthz"));
  // Bytes that are not TLS end only their own connection.
  const RawSocket plain(server_->port());
  plain.send("GET /healthz HTTP/1.1\r\n\r\n");
  plain.read_to_end();
  EXPECT_TRUE(plain.closed_by_server());
  EXPECT_EQ(client.Get("/healthz")->status, 200);
}

}  // namespace
}  // namespace rubato::api
