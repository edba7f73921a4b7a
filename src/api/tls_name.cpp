#include "api/tls_name.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

namespace rubato::api {

namespace {

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool covers(X509* certificate, const std::string& host) {
  return X509_check_ip_asc(certificate, host.c_str(), 0) == 1 ||
         X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1;
}

// The first host name of the certificate that is not a pattern; empty if it has none.
std::string first_name(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  if (!names) return "";
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
    const std::string host(text, static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    if (!host.empty() && host.find('*') == std::string::npos) return host;
  }
  return "";
}

std::string own_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::string name_for_clients(const std::string& host, ssl_ctx_st* tls) {
  const bool everywhere = host == "0.0.0.0" || host == "::";
  if (tls == nullptr) return !everywhere ? host : host == "::" ? "::1" : "127.0.0.1";
  X509* certificate = SSL_CTX_get0_certificate(tls);
  std::vector<std::string> here;
  if (everywhere) {
    here = {"localhost", host == "::" ? "::1" : "127.0.0.1", own_name()};
  } else {
    here = {host};
    if (is_loopback_name(host)) here.emplace_back("localhost");
  }
  for (const std::string& name : here) {
    if (!name.empty() && covers(certificate, name)) return name;
  }
  const std::string named = first_name(certificate);
  if (!named.empty() && !is_loopback_name(host)) return named;
  return everywhere ? "localhost" : host;
}

}  // namespace rubato::api
