// Accounts and metrics of tenants over HTTP: everybody sees what is theirs.
#include "api/api_fixture.h"
#include "api/metrics.h"

namespace rubato::api {
namespace {

using nlohmann::json;

// The value of a sample in the text, or -1.
double sample(const std::string& text, const std::string& name) {
  const std::size_t at = ("\n" + text).find("\n" + name + " ");
  return at == std::string::npos
             ? -1
             : parse_double(
                   text.substr(at + name.size() + 1, text.find('\n', at) - at - name.size() - 1))
                   .value_or(-2);
}

TEST_F(ApiTest, UsageHasAPeriod) {
  const Got got = ask("GET", "/api/v1/usage?by=tenant&from=2026-02-01", admin_);
  ASSERT_EQ(got.status, 200) << got.body;
  EXPECT_EQ(got.json["from"], "2026-02-01");
  EXPECT_EQ(got.json["to"], "2026-02-28");
  EXPECT_EQ(got.json["rows"], json::array());
  EXPECT_EQ(got.json["held_s"], 0);
  EXPECT_EQ(ask("GET", "/api/v1/usage?from=2024-02-10", admin_).json["to"], "2024-02-29");
  EXPECT_EQ(ask("GET", "/api/v1/usage?to=2026-12-31", admin_).json["from"], "2026-12-01");
  EXPECT_EQ(ask("GET", "/api/v1/usage", alice_).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/usage", "").status, 401);
  for (const char* wrong :
       {"by=colour", "from=2026-02-30", "from=soon", "limit=0", "from=2026-02-02&to=2026-02-01"}) {
    EXPECT_EQ(ask("GET", std::string("/api/v1/usage?") + wrong, admin_).status, 400) << wrong;
  }
}

TEST_F(ApiTest, MetricsOfTenants) {
  submit(alice_);
  submit(alice_);
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/bob", admin_, {{"quota", 3}, {"max_queued", 1}}).status,
            200);
  submit(bob_);
  EXPECT_EQ(ask("POST", "/api/v1/jobs", bob_, {{"run", {"/bin/true"}}}).status, 409);
  EXPECT_EQ(ask("POST", "/api/v1/jobs", bob_, {{"run", {"/no/such/program"}}}).status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/jobs", bob_, {{"run", {"/bin/true"}}, {"devices", 9}}).status,
            400);
  const std::string all = ask("GET", "/metrics", admin_).body;
  EXPECT_EQ(sample(all, "rubato_tenant_jobs{tenant=\"alice\",phase=\"queued\"}"), 2) << all;
  EXPECT_EQ(sample(all, "rubato_tenant_jobs{tenant=\"bob\",phase=\"running\"}"), 0);
  EXPECT_EQ(sample(all, "rubato_tenant_devices_quota{tenant=\"bob\"}"), 3);
  EXPECT_EQ(sample(all, "rubato_tenant_devices_quota{tenant=\"alice\"}"), -1) << "it has none";
  for (const char* reason : {"max-queued", "not-startable", "does-not-fit"}) {
    EXPECT_EQ(sample(all, std::string("rubato_tenant_submissions_refused_total{tenant=\"bob\","
                                      "reason=\"") +
                              reason + "\"}"),
              1)
        << reason;
  }
  const std::string own = ask("GET", "/metrics", alice_).body;
  EXPECT_EQ(sample(own, "rubato_tenant_jobs{tenant=\"alice\",phase=\"queued\"}"), 2);
  EXPECT_EQ(own.find("bob"), std::string::npos) << "a tenant sees no other";
}

TEST(TenantMetrics, AreBounded) {
  control::ControllerMetrics metrics;
  for (int i = 0; i < 250; ++i) {
    control::TenantMetrics one;
    one.queued = 1;
    one.quota = 2;
    one.time = {10, 5};
    metrics.tenants.emplace_back("t" + std::to_string(i), one);
    metrics.refused[{"t" + std::to_string(i), "quota"}] = 1;
  }
  const std::string text = tenant_metrics_text(metrics, "");
  EXPECT_EQ(sample(text, "rubato_tenant_jobs{tenant=\"t7\",phase=\"queued\"}"), 1);
  EXPECT_EQ(sample(text, "rubato_tenant_jobs{tenant=\"_other\",phase=\"queued\"}"), 150);
  EXPECT_EQ(sample(text, "rubato_tenant_held_device_seconds_total{tenant=\"_other\"}"), 1500);
  EXPECT_EQ(sample(text, "rubato_tenant_trained_device_seconds_total{tenant=\"t99\"}"), 5);
  EXPECT_EQ(sample(text,
                   "rubato_tenant_submissions_refused_total{tenant=\"_other\","
                   "reason=\"quota\"}"),
            150);
  EXPECT_EQ(text.find("t100"), std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 800);
}

}  // namespace
}  // namespace rubato::api
