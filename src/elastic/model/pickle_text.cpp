#include "elastic/model/pickle_text.h"

#include <utility>
#include <vector>

namespace rubato::elastic {

namespace {

// Of the pickle machine.
constexpr char kMarkStack = '(';
constexpr char kTuple = 't';  // of everything since the mark
constexpr char kEmptyTuple = ')';
constexpr char kReduce = 'R';  // calls a function with a tuple
constexpr char kSetItems = 'u';
constexpr char kGlobal = 'c';
constexpr char kUnicode = 'X';   // length (u32), UTF-8
constexpr char kLong1 = '\x8a';  // count of bytes, whole number
constexpr char kPersistentId = 'Q';
constexpr char kFalse = '\x89';
constexpr char kStop = '.';

void add_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

}  // namespace

void PickleText::global(std::string_view module, std::string_view name) {
  out_ += kGlobal;
  out_.append(module).append("\n").append(name).append("\n");
}

void PickleText::text(std::string_view text) {
  out_ += kUnicode;
  add_little_endian(out_, text.size(), 4);
  out_ += text;
}

void PickleText::whole(std::int64_t value) {
  out_ += kLong1;
  out_ += '\x08';
  add_little_endian(out_, static_cast<std::uint64_t>(value), 8);
}

void PickleText::wholes(std::span<const std::int64_t> values) {
  out_ += kMarkStack;
  for (const std::int64_t value : values) whole(value);
  out_ += kTuple;
}

void PickleText::begin_ordered_dict() {
  global("collections", "OrderedDict");
  out_ += kEmptyTuple;
  out_ += kReduce;
  out_ += kMarkStack;
}

void PickleText::end_ordered_dict() { out_ += kSetItems; }

void PickleText::tensor(std::string_view storage, std::string_view key, std::size_t numbers,
                        std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  global("torch._utils", "_rebuild_tensor_v2");
  out_ += kMarkStack;
  out_ += kMarkStack;
  text("storage");
  global("torch", storage);
  text(key);
  text("cpu");
  whole(static_cast<std::int64_t>(numbers));
  out_ += kTuple;
  out_ += kPersistentId;
  whole(0);  // where it begins in the storage
  wholes(shape);
  wholes(strides);
  out_ += kFalse;                        // requires_grad
  global("collections", "OrderedDict");  // of hooks
  out_ += kEmptyTuple;
  out_ += kReduce;
  out_ += kTuple;
  out_ += kReduce;
}

std::string PickleText::finish() {
  out_ += kStop;
  return std::move(out_);
}

}  // namespace rubato::elastic
