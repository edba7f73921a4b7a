#include "elastic/job/registry_url.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "control/temporary_folder.h"

namespace rubato::elastic {
namespace {

TEST(RegistryUrlTest, NamesServersAndAPrefix) {
  const auto url = parse_registry_url("etcd:http://a.b:12,http://[::1]:34,http://c/rubato/team/");
  ASSERT_TRUE(url.ok()) << url.error().message;
  EXPECT_EQ(url->kind, RegistryUrl::Kind::kEtcd);
  EXPECT_EQ(url->servers, (std::vector<ServerAddress>{
                              {"a.b", 12}, {"::1", 34}, {"c", 2379}}));  // etcd's own port
  EXPECT_EQ(url->servers[1].text(), "[::1]:34");
  EXPECT_EQ(url->path, "/rubato/team");
}

TEST(RegistryUrlTest, NamesAFolder) {
  for (const char* text : {"file:/data/x", "file:///data/x", "file:/data/x//"}) {
    const auto url = parse_registry_url(text);
    ASSERT_TRUE(url.ok()) << url.error().message;
    EXPECT_EQ(url->kind, RegistryUrl::Kind::kFile);
    EXPECT_EQ(url->path, "/data/x");
  }
}

TEST(RegistryUrlTest, BadOnesAreRefusedWithAReason) {
  const auto why = [](const std::string& text) {
    const auto url = parse_registry_url(text);
    return url.ok() ? std::string("accepted") : url.error().message;
  };
  const auto says = [&](const std::string& text, const std::string& words) {
    EXPECT_NE(why(text).find(words), std::string::npos) << text << ": " << why(text);
  };
  says("", "expected file:/FOLDER or etcd:http://HOST:PORT/PREFIX");
  says("/data", "expected file:/FOLDER or etcd:");
  says("file:data", "absolute path");
  says("file:/", "absolute path");
  says("file://host/data", "absolute path");
  says("etcd:host:2379/x", "expected etcd:http://");
  says("etcd:https://host:2379/x", "https is not supported");
  says("etcd:http://me:secret@host:2379/x", "passwords are not supported");
  says("etcd:http://host:0/x", "not a port");
  says("etcd:http://host:65536/x", "not a port");
  says("etcd:http://host:/x", "not a port");
  says("etcd:http:///x", "not a host");
  says("etcd:http://ho\"st/x", "not a host");
  says("etcd:http://[::1/x", "no ']'");
  says("etcd:http://[::1]2379/x", "':PORT'");
  says("etcd:http://a:1,b:2/x", "expected etcd:http://");
  says("etcd:http://host:2379", "prefix");
  says("etcd:http://host:2379/", "prefix");
  says("etcd:http://host:2379/a b", "not plain text");
  says("etcd:http://h/" + std::string(5000, 'x'), "too long");
}

// Two jobs of one name in one place never meet; neither leaves the place.
TEST(RegistryUrlTest, EveryJobHasItsOwn) {
  EXPECT_EQ(registry_within("etcd:http://h:1/rubato/", "../my job", "1f"),
            "etcd:http://h:1/rubato/___my_job.1f");
  EXPECT_EQ(registry_within("file:/data", "job", "2"), "file:/data/job.2");
  EXPECT_TRUE(parse_registry_url(registry_within("file:/data", "job", "2")).ok());
}

// Whoever looks at a job with settings of somebody else must not make folders anywhere.
TEST(RegistryUrlTest, OnlyTheStartOfAJobMakesItsFolder) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path() + "/place/job.1";
  const auto opened = open_registry("file:" + folder);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->get("view")->version, 0);
  EXPECT_EQ((*opened)->compare_and_swap("view", 0, "x").error().code, ErrorCode::kRefused);
  EXPECT_FALSE(is_directory(folder));
  ASSERT_TRUE(create_registry("file:" + folder).ok());
  EXPECT_TRUE(*(*opened)->compare_and_swap("view", 0, "x"));
}

TEST(RegistryUrlTest, AJobsRegistryIsInItsFolderUnlessItsSettingsNameAnother) {
  const TemporaryFolder temporary;
  const JobFolder folder(temporary.path() + "/job");
  JobSettings settings;
  ASSERT_TRUE(*(*open_registry(folder, settings))->compare_and_swap("view", 0, "inside"));
  EXPECT_TRUE(is_file(folder.registry_folder() + "/view.1"));
  settings.registry = "file:" + temporary.path() + "/elsewhere";
  ASSERT_TRUE(create_registry(settings.registry).ok());
  ASSERT_TRUE(*(*open_registry(folder, settings))->compare_and_swap("view", 0, "outside"));
  EXPECT_TRUE(is_file(temporary.path() + "/elsewhere/view.1"));
}

}  // namespace
}  // namespace rubato::elastic
