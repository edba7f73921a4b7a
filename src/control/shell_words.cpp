#include "control/shell_words.h"

#include <fmt/format.h>

namespace rubato::control {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kSpecial = "|&;<>()$`";
constexpr std::string_view kSpecialInQuotes = "$`";
constexpr std::string_view kEscapedInQuotes = "\"\\$`\n";

bool contains(std::string_view set, char c) { return set.find(c) != std::string_view::npos; }

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (contains(kBlanks, c)) {
        end_word();
        continue;
      }
      if (c == '\\' && text_.substr(at_).starts_with('\n')) {  // continuation of a long line
        ++at_;
        continue;
      }
      in_word_ = true;
      if (c == '\'') {
        if (auto status = single_quotes(); !status) return status.error();
      } else if (c == '"') {
        if (auto status = double_quotes(); !status) return status.error();
      } else if (c == '\\') {
        if (at_ == text_.size())
          return invalid_input("a backslash at the end of the line escapes nothing");
        word_ += text_[at_++];
      } else if (contains(kSpecial, c)) {
        return special(c);
      } else {
        word_ += c;
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  static Error special(char c) {
    return invalid_input(fmt::format(
        "'{}' has a special meaning in a shell, but `run` does not use one: quote it, write `run` "
        "as a list, or run [sh, -c, \"...\"]",
        c));
  }
  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }
  Status single_quotes() {
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) return invalid_input("unclosed single quote (')");
    word_ += text_.substr(at_, end - at_);
    at_ = end + 1;
    return ok_status();
  }
  Status double_quotes() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return ok_status();
      if (contains(kSpecialInQuotes, c)) return special(c);
      const bool escape = c == '\\' && at_ < text_.size() && contains(kEscapedInQuotes, text_[at_]);
      if (!escape) {
        word_ += c;
      } else {
        if (text_[at_] != '\n') word_ += text_[at_];
        ++at_;
      }
    }
    return invalid_input("unclosed double quote (\")");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> words_;
  std::string word_;
  bool in_word_ = false;
};

}  // namespace

Result<std::vector<std::string>> shell_words(std::string_view text) { return Splitter(text).run(); }

}  // namespace rubato::control
