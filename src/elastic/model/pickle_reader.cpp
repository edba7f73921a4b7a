#include "elastic/model/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

namespace rubato::elastic {

namespace {

struct Value;
using Shared = std::shared_ptr<Value>;

struct Value {
  enum class Kind { kNothing, kMark, kWhole, kText, kTuple, kDict, kGlobal, kStorage, kTensor };
  Kind kind = Kind::kNothing;
  std::int64_t whole = 0;
  std::string text;           // of a global: "module name"; of a storage: its key
  std::vector<Shared> items;  // of a tuple; of a dict: keys and values by turns
  PickledTensor tensor;       // of a storage: storage_type
};
using Kind = Value::Kind;

Shared make(Kind kind) {
  auto value = std::make_shared<Value>();
  value->kind = kind;
  return value;
}

// The machine that a pickle is a program for, without anything that runs code. Throws
// std::invalid_argument.
class Machine {
 public:
  explicit Machine(std::string_view program) : rest_(program) {}

  Shared run() {
    for (;;) {
      const char code = take(1)[0];
      if (code == '.') return pop();
      perform(code);
      if (stack_.size() > kMostValues) throw std::invalid_argument("it is too deep");
    }
  }

 private:
  static constexpr std::size_t kMostValues = 10'000'000;

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) throw std::invalid_argument("it ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::uint64_t number(int size) {
    const std::string_view bytes = take(static_cast<std::uint64_t>(size));
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    }
    return value;
  }
  std::string line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) throw std::invalid_argument("it ends too early");
    std::string text(take(end));
    take(1);
    return text;
  }

  Shared pop() {
    if (stack_.empty() || stack_.back()->kind == Kind::kMark) {
      throw std::invalid_argument("a value is missing");
    }
    Shared top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }
  std::vector<Shared> pop_to_mark() {
    std::vector<Shared> values;
    while (!stack_.empty() && stack_.back()->kind != Kind::kMark) values.push_back(pop());
    if (stack_.empty()) throw std::invalid_argument("a mark is missing");
    stack_.pop_back();
    std::reverse(values.begin(), values.end());
    return values;
  }
  void push(Shared value) { stack_.push_back(std::move(value)); }
  void push_whole(std::int64_t whole) {
    push(make(Kind::kWhole));
    stack_.back()->whole = whole;
  }
  void push_text(std::string_view text) {
    push(make(Kind::kText));
    stack_.back()->text = text;
  }
  void push_tuple(std::vector<Shared> items) {
    push(make(Kind::kTuple));
    stack_.back()->items = std::move(items);
  }
  void push_tuple_of(int count) {
    std::vector<Shared> items;
    for (int i = 0; i < count; ++i) items.insert(items.begin(), pop());
    push_tuple(std::move(items));
  }
  void remember(std::uint64_t index) {
    if (stack_.empty()) throw std::invalid_argument("a value is missing");
    memory_[index] = stack_.back();
  }
  void recall(std::uint64_t index) {
    const auto found = memory_.find(index);
    if (found == memory_.end()) throw std::invalid_argument("a value is missing");
    push(found->second);
  }

  void perform(char code) {
    switch (static_cast<unsigned char>(code)) {
      case 0x80:  // protocol
        take(1);
        break;
      case 0x95:  // a frame
        take(8);
        break;
      case '(':
        push(make(Kind::kMark));
        break;
      case ')':
        push(make(Kind::kTuple));
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple_of(static_cast<unsigned char>(code) - 0x84);
        break;
      case '}':
        push(make(Kind::kDict));
        break;
      case ']':
        push(make(Kind::kTuple));
        break;
      case 'N':
      case 'G':  // a float, which no state_dict needs
        if (code == 'G') take(8);
        push(make(Kind::kNothing));
        break;
      case 0x88:
      case 0x89:
        push_whole(static_cast<unsigned char>(code) == 0x88 ? 1 : 0);
        break;
      case 'K':
        push_whole(static_cast<std::int64_t>(number(1)));
        break;
      case 'M':
        push_whole(static_cast<std::int64_t>(number(2)));
        break;
      case 'J':
        push_whole(static_cast<std::int32_t>(number(4)));
        break;
      case 0x8a:
        push_long();
        break;
      case 'X':
        push_text(take(number(4)));
        break;
      case 0x8c:
        push_text(take(number(1)));
        break;
      case 'c': {
        std::string module = line();
        push(make(Kind::kGlobal));
        stack_.back()->text = fmt::format("{} {}", module, line());
        break;
      }
      case 0x93: {  // a global by two texts
        const Shared name = pop();
        const Shared module = pop();
        push(make(Kind::kGlobal));
        stack_.back()->text = fmt::format("{} {}", module->text, name->text);
        break;
      }
      case 'q':
        remember(number(1));
        break;
      case 'r':
        remember(number(4));
        break;
      case 0x94:
        remember(memory_.size());
        break;
      case 'h':
        recall(number(1));
        break;
      case 'j':
        recall(number(4));
        break;
      case 's': {
        Shared value = pop();
        Shared key = pop();
        add({std::move(key), std::move(value)});
        break;
      }
      case 'u':
        add(pop_to_mark());
        break;
      case 'a':
        pop();  // of a list, which nobody reads
        break;
      case 'e':
        pop_to_mark();
        break;
      case 'b':  // attributes, such as a state_dict's _metadata
        pop();
        break;
      case 'Q':
        push_storage(*pop());
        break;
      case 'R':
        call();
        break;
      default:
        throw std::invalid_argument(
            fmt::format("it has the operation {:#04x}",
                        static_cast<unsigned>(static_cast<unsigned char>(code))));
    }
  }

  void push_long() {
    const auto size = static_cast<int>(number(1));
    if (size > 8) throw std::invalid_argument("a number is too large");
    std::uint64_t value = number(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1) & 1) != 0) {
      value |= ~std::uint64_t{0} << (8 * size);
    }
    push_whole(static_cast<std::int64_t>(value));
  }

  void add(std::vector<Shared> items) {
    if (stack_.empty() || stack_.back()->kind != Kind::kDict || items.size() % 2 != 0) {
      throw std::invalid_argument("a dictionary is missing");
    }
    std::vector<Shared>& all = stack_.back()->items;
    all.insert(all.end(), items.begin(), items.end());
  }

  // ('storage', torch.FloatStorage, key, device, numbers)
  void push_storage(const Value& id) {
    const bool known = id.kind == Kind::kTuple && id.items.size() == 5 &&
                       id.items[1]->kind == Kind::kGlobal &&
                       id.items[1]->text.starts_with("torch ") && id.items[2]->kind == Kind::kText;
    if (!known) throw std::invalid_argument("it refers to something that is no storage");
    push(make(Kind::kStorage));
    stack_.back()->text = id.items[2]->text;
    stack_.back()->tensor.storage_type = id.items[1]->text.substr(6);
  }

  static std::vector<std::int64_t> wholes(const Value& tuple) {
    std::vector<std::int64_t> values;
    for (const Shared& item : tuple.items) {
      if (item->kind != Kind::kWhole) throw std::invalid_argument("a shape is no list of numbers");
      values.push_back(item->whole);
    }
    return values;
  }

  void call() {
    const Shared arguments = pop();
    const Shared function = pop();
    const std::string& name = function->text;
    const std::vector<Shared>& given = arguments->items;
    if (function->kind != Kind::kGlobal) throw std::invalid_argument("it calls no function");
    if (name == "collections OrderedDict") {
      push(make(Kind::kDict));
    } else if (name == "torch._utils _rebuild_parameter" && !given.empty()) {
      push(given[0]);
    } else if (name == "torch._utils _rebuild_tensor_v2" && given.size() >= 4 &&
               given[0]->kind == Kind::kStorage && given[1]->kind == Kind::kWhole) {
      Shared tensor = make(Kind::kTensor);
      tensor->tensor = {.name = {},
                        .storage_type = given[0]->tensor.storage_type,
                        .key = given[0]->text,
                        .offset = given[1]->whole,
                        .shape = wholes(*given[2]),
                        .strides = wholes(*given[3])};
      push(std::move(tensor));
    } else {
      throw std::invalid_argument(fmt::format("it needs the Python function '{}'", name));
    }
  }

  std::string_view rest_;
  std::vector<Shared> stack_;
  std::map<std::uint64_t, Shared> memory_;
};

}  // namespace

Result<std::vector<PickledTensor>> read_pickled_state(std::string_view pickle) {
  std::vector<PickledTensor> tensors;
  try {
    const Shared state = Machine(pickle).run();
    if (state->kind != Kind::kDict) throw std::invalid_argument("it is no dictionary");
    for (std::size_t i = 0; i + 1 < state->items.size(); i += 2) {
      const Value& name = *state->items[i];
      const Value& value = *state->items[i + 1];
      if (name.kind != Kind::kText || value.kind != Kind::kTensor) {
        throw std::invalid_argument(
            fmt::format("its entry '{}' is no tensor with a name", name.text));
      }
      tensors.push_back(value.tensor);
      tensors.back().name = name.text;
    }
  } catch (const std::invalid_argument& problem) {
    return invalid_input(problem.what());
  }
  return tensors;
}

}  // namespace rubato::elastic
