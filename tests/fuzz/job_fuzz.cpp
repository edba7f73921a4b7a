// libFuzzer: feeds hostile bytes to the reader of job documents. An accepted document must survive
// a round trip through its canonical form.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json_text.h"
#include "control/job_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rubato::control;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = parse_job_yaml(text, "f");
  if (!document.ok()) {
    RUBATO_CHECK(document.error().message.starts_with("f"), "an error without a location");
    return 0;
  }
  const auto again =
      parse_job_json(rubato::parse_json_or_throw(rubato::compact_json(to_json(*document))));
  RUBATO_CHECK(again.ok() && *again == *document,
               "the canonical form reads as a different document");
  return 0;
}
