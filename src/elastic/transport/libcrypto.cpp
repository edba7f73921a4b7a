#include "elastic/transport/libcrypto.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>

namespace rubato::elastic {

namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<Libcrypto> load_libcrypto(std::span<const char* const> files) {
  std::string tried;
  for (const char* const file : files) {
    if (!tried.empty()) tried += ", ";
    tried += file;
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Libcrypto c{.file = file};
    if (find(library, "EVP_CIPHER_CTX_new", c.new_context) &&
        find(library, "EVP_CIPHER_CTX_free", c.free_context) &&
        find(library, "EVP_aes_256_gcm", c.aes_256_gcm) &&
        find(library, "EVP_CipherInit_ex", c.init) && find(library, "EVP_CipherUpdate", c.update) &&
        find(library, "EVP_CipherFinal_ex", c.final) &&
        find(library, "EVP_CIPHER_CTX_ctrl", c.control)) {
      return c;
    }
  }
  return Error{
      ErrorCode::kIo,
      fmt::format("cannot encrypt: OpenSSL's libcrypto cannot be loaded (tried {}); install it on "
                  "this machine (Debian: libssl3), or run the job without encryption",
                  tried)};
}

const Result<Libcrypto>& libcrypto() {
  static const Result<Libcrypto> kLoaded =
      load_libcrypto(std::array{"libcrypto.so.3", "libcrypto.so.1.1"});
  return kLoaded;
}

Status check_encryption() {
  const Result<Libcrypto>& loaded = libcrypto();
  if (!loaded.ok()) return loaded.error();
  return ok_status();
}

}  // namespace rubato::elastic
