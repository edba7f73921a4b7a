// The dashboard as files. Which page of it is shown is decided in the browser.
#include "api/dashboard.h"
#include "api/handlers.h"
#include "base/sha256.h"

namespace rubato::api {

namespace {

// Only files of this server, and no script or style within the page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* kHtml = "text/html; charset=utf-8";

constexpr const char* kNoDashboard =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Rubato</title></head>"
    "<body><h1>Rubato</h1><p>This rubatod was built without the dashboard, because Node and npm "
    "were missing. Install them, run <code>make dashboard</code> and restart rubatod.</p>"
    "<p>The command line (<code>rubato top</code>) and the API "
    "(<a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>) have everything that it shows."
    "</p></body></html>\n";

}  // namespace

const DashboardFile* dashboard_file(std::string_view name) {
  for (const DashboardFile& file : dashboard_files()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

Reply get_page(const Call& call) {
  const DashboardFile* page = dashboard_file("index.html");
  Reply reply{.content_type = kHtml,
              .body = page == nullptr ? kNoDashboard : std::string(page->bytes)};
  reply.headers["Content-Security-Policy"] = kPolicy;
  reply.headers["Referrer-Policy"] = "no-referrer";
  reply.headers["Cross-Origin-Opener-Policy"] = "same-origin";
  reply.headers["Cache-Control"] = "no-cache";
  const std::string etag = '"' + sha256_hex(reply.body).substr(0, 16) + '"';
  reply.headers["ETag"] = etag;
  if (call.known_etag != etag) return reply;
  reply.status = 304;
  reply.body.clear();
  return reply;
}

Reply get_asset(const Call& call) {
  const std::string name = call.text("file");
  const DashboardFile* file = name == "index.html" ? nullptr : dashboard_file(name);
  if (file == nullptr) return error_reply(404, "not-found", "no such file");
  Reply reply{.content_type = std::string(file->media), .body = std::string(file->bytes)};
  reply.headers["Content-Encoding"] = "gzip";
  reply.headers["Cache-Control"] = "public, max-age=31536000, immutable";
  return reply;
}

}  // namespace rubato::api
