// A Python pickle of an OrderedDict of tensors, as torch.save() writes a state_dict (protocol 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rubato::elastic {

class PickleText {
 public:
  void begin_ordered_dict();
  void text(std::string_view text);
  // A contiguous tensor that is the whole storage `key`, of `numbers` numbers.
  void tensor(std::string_view storage, std::string_view key, std::size_t numbers,
              std::span<const std::int64_t> shape);
  void end_ordered_dict();
  std::string finish();

 private:
  void global(std::string_view module, std::string_view name);
  void whole(std::int64_t value);
  void wholes(std::span<const std::int64_t> values);  // as a tuple

  std::string out_ = "\x80\x02";
};

}  // namespace rubato::elastic
