// The few functions of OpenSSL's libcrypto that encryption needs. The library is loaded when it is
// first needed, so that the same program runs where it is missing: only jobs that encrypt need it.
// The functions exist unchanged in OpenSSL 1.1 and 3 and are declared here, without its headers.
#pragma once

#include <span>

#include "base/result.h"

namespace rubato::elastic {

struct Libcrypto {
  using Context = void;  // EVP_CIPHER_CTX
  using Cipher = void;   // EVP_CIPHER
  using Engine = void;
  const char* file = nullptr;  // which library it is
  Context* (*new_context)() = nullptr;
  void (*free_context)(Context*) = nullptr;
  const Cipher* (*aes_256_gcm)() = nullptr;
  int (*init)(Context*, const Cipher*, Engine*, const unsigned char* key, const unsigned char* iv,
              int encrypt) = nullptr;
  int (*update)(Context*, unsigned char* out, int* out_bytes, const unsigned char* in,
                int in_bytes) = nullptr;
  int (*final)(Context*, unsigned char* out, int* out_bytes) = nullptr;
  int (*control)(Context*, int command, int argument, void* data) = nullptr;
};

// The first of these libraries that can be loaded. It is never unloaded. The error says what to
// install.
Result<Libcrypto> load_libcrypto(std::span<const char* const> files);

// libcrypto.so.3 or libcrypto.so.1.1, loaded once per process. Callable from any thread.
const Result<Libcrypto>& libcrypto();

// Whether this process can encrypt.
Status check_encryption();

}  // namespace rubato::elastic
