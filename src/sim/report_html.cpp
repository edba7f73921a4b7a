// report.html: the bundle of web/src/report and its data in one file. The page may run that script
// and no other: the content-security-policy names its hash.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.h"
#include "base/sha256.h"
#include "sim/report.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlainStyle =
    "body{margin:2em;font:14px/1.5 system-ui,sans-serif}pre{overflow-x:auto}code{overflow-wrap:"
    "anywhere}";

std::string hash_source(std::string_view content) {
  Sha256 sha;
  sha.update(content);
  const Sha256Digest digest = sha.finish();
  return "'sha256-" + base64({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

std::string escaped(std::string_view text, std::string_view less, std::string_view greater,
                    std::string_view ampersand) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += less;
        break;
      case '>':
        safe += greater;
        break;
      case '&':
        safe += ampersand;
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string as_text(std::string_view text) { return escaped(text, "&lt;", "&gt;", "&amp;"); }

// JSON that is safe inside a script element. Markup characters occur only in strings, where an
// escape means the same.
std::string in_script(std::string_view data) {
  return escaped(data, "\\u003c", "\\u003e", "\\u0026");
}

// Which runs are compared with which, and the documents themselves.
std::string page_data(std::span<const ReportDocument> documents) {
  const std::vector<SimResult> runs = all_runs(documents);
  std::vector<std::pair<std::size_t, std::size_t>> place;  // of a run: document, index in it
  for (std::size_t d = 0; d < documents.size(); ++d) {
    for (std::size_t i = 0; i < documents[d].runs.size(); ++i) place.emplace_back(d, i);
  }
  std::vector<std::string> policies;
  Json groups = Json::array();
  for (const RunGroup& group : group_runs(runs)) {
    Json members = Json::array();
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      auto policy = std::find(policies.begin(), policies.end(), group.labels[i]);
      if (policy == policies.end()) policy = policies.insert(policy, group.labels[i]);
      const auto& [document, run] = place[static_cast<std::size_t>(group.runs[i] - runs.data())];
      members.push_back(
          {{"policy", policy - policies.begin()}, {"document", document}, {"run", run}});
    }
    const auto best = best_run(group);
    groups.push_back({{"title", group.title},
                      {"best", best ? Json(*best) : Json(nullptr)},
                      {"runs", std::move(members)}});
  }
  Json folders = Json::array();
  for (const ReportDocument& document : documents) folders.push_back(document.folder);
  const Json index = {{"folders", folders}, {"policies", policies}, {"groups", groups}};
  std::string data = "{\"index\":" + index.dump(-1, ' ', false, Json::error_handler_t::replace) +
                     ",\"documents\":[";
  for (std::size_t d = 0; d < documents.size(); ++d) {
    if (d > 0) data += ',';
    data += documents[d].json;
  }
  return data + "]}";
}

// What is shown without a script.
std::string plain_content(std::span<const ReportDocument> documents, std::string_view why) {
  std::string content = fmt::format("<h1>Rubato simulation report</h1>\n<p>{}</p>\n", why);
  for (const ReportDocument& document : documents) {
    content += fmt::format("<p><code>{}</code></p>\n", as_text(document.context.command));
  }
  return content + "<pre>" + as_text(text_table(all_runs(documents))) + "</pre>\n";
}

}  // namespace

std::string html_report(std::span<const ReportDocument> documents, const ReportBundle& bundle) {
  const bool plain = bundle.script.empty();
  const std::string_view style = plain ? kPlainStyle : bundle.style;
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; "
      "style-src {}; base-uri 'none'; form-action 'none'\">\n"
      "<title>Rubato simulation report</title>\n<style>",
      plain ? "'none'" : hash_source(bundle.script), hash_source(style));
  page += style;
  page += "</style>\n</head>\n<body>\n";
  if (plain) {
    page +=
        plain_content(documents,
                      "This rubato was built without Node, so the report has no plots, jobs and "
                      "devices. The folder's CSV files have all of them. With a rubato that was "
                      "built with Node, <code>rubato report DIR</code> shows them.");
  } else {
    page += "<noscript>\n" +
            plain_content(documents, "The plots, jobs and devices of this page need JavaScript.") +
            "</noscript>\n<div id=\"app\"></div>\n<script type=\"application/json\" id=\"data\">" +
            in_script(page_data(documents)) + "</script>\n<script>";
    page += bundle.script;
    page += "</script>\n";
  }
  return page + "</body>\n</html>\n";
}

}  // namespace rubato
