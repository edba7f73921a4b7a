// rubato top: shows the cluster and its jobs, live on a terminal and once otherwise.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "commands.h"
#include "interrupt.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

// A terminal in full-screen mode: keys are read without Enter and not echoed. The destructor
// restores the terminal.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fmt::print("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  struct Size {
    int rows = 24;
    int columns = 100;
  };
  static Size size() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return {};
    return {.rows = size.ws_row, .columns = size.ws_col};
  }

  // Draws as many lines and columns as fit, the first line in bold.
  void draw(std::string_view text, bool color) const {
    const Size size = Screen::size();
    std::string out = "\x1b[H";
    std::string_view rest = text;
    for (int row = 0; row + 1 < size.rows && !rest.empty(); ++row) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line =
          rest.substr(0, std::min<std::size_t>(end, static_cast<std::size_t>(size.columns)));
      const bool bold = row == 0 && color;
      out += fmt::format("{}{}{}", bold ? "\x1b[1m" : "", line, bold ? "\x1b[0m" : "");
      out += "\x1b[K\r\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    out += "\x1b[J";
    fmt::print("{}", out);
    std::fflush(stdout);
  }

  enum class Key { kNone, kQuit, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kOther };
  // Waits up to `seconds` for a key. Returns kQuit also after an interrupt or if the terminal is
  // gone.
  Key key_within(double seconds) {
    if (typed_.empty()) {
      pollfd keys{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const int ready = poll(&keys, 1, static_cast<int>(seconds * 1000));
      if (interrupted()) return Key::kQuit;
      if (ready <= 0) return Key::kNone;
      std::array<char, 64> bytes{};
      const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
      if (got <= 0) return Key::kQuit;
      typed_.assign(bytes.data(), static_cast<std::size_t>(got));
    }
    return next_typed();
  }

 private:
  Key next_typed() {
    constexpr std::pair<std::string_view, Key> kKeys[] = {
        {"q", Key::kQuit},           {"Q", Key::kQuit},     {"\x1b[A", Key::kUp},
        {"\x1bOA", Key::kUp},        {"k", Key::kUp},       {"\x1b[B", Key::kDown},
        {"\x1bOB", Key::kDown},      {"j", Key::kDown},     {"\x1b[5~", Key::kPageUp},
        {"\x1b[6~", Key::kPageDown}, {" ", Key::kPageDown}, {"\x1b[H", Key::kHome},
        {"\x1b[1~", Key::kHome},     {"\x1b[F", Key::kEnd}, {"\x1b[4~", Key::kEnd}};
    for (const auto& [code, key] : kKeys) {
      if (!typed_.starts_with(code)) continue;
      typed_.erase(0, code.size());
      return key;
    }
    // Skip an unknown sequence, up to the next one.
    typed_.erase(0, typed_.front() == '\x1b' ? typed_.find('\x1b', 1) : 1);
    return Key::kOther;
  }

  termios before_{};
  std::string typed_;  // keys that were read but not handled yet
};

std::string bar(const json& c, int width) {
  const int devices = std::max(1, c.value("devices", 1));
  const auto cells = [&](double count) {
    return static_cast<int>(std::lround(count * width / devices));
  };
  const int training = std::min(width, cells(c.value("training", 0.0)));
  const int held = std::clamp(cells(c.value("held", 0)) - training, 0, width - training);
  const int reserved = std::clamp(cells(c.value("reserved", 0)), 0, width - training - held);
  return fmt::format("[{:#<{}}{:+<{}}{:x<{}}{:.<{}}] # training  + starting or leaving  x reserved",
                     "", training, "", held, "", reserved, "", width - training - held - reserved);
}

Result<json> look(Client& client) {
  Result<json> cluster = client.get("/cluster");
  if (!cluster.ok()) return cluster;
  Result<json> jobs = client.all_jobs(true);
  if (!jobs.ok()) return jobs;
  // Jobs with devices come first; they are the ones that change.
  std::stable_partition(jobs->begin(), jobs->end(),
                        [](const json& job) { return job.value("granted", 0) > 0; });
  return json{{"cluster", std::move(*cluster)}, {"jobs", std::move(*jobs)}};
}

std::string head_of(const json& seen, double at, const std::string& url) {
  return fmt::format("rubato {}  {}\n{}\n{}\n\n", url, time_text(at), cluster_line(seen["cluster"]),
                     bar(seen["cluster"], 50));
}

// The part of a long list that a screen shows.
class Window {
 public:
  void move(Screen::Key key) {
    using Key = Screen::Key;
    if (key == Key::kUp) first_ -= 1;
    if (key == Key::kDown) first_ += 1;
    if (key == Key::kPageUp) first_ -= rows_;
    if (key == Key::kPageDown) first_ += rows_;
    if (key == Key::kHome) first_ = 0;
    if (key == Key::kEnd) first_ = all_;
  }
  // Returns the titles of the table and the lines that fit into `rows`, and sets others().
  std::string cut(const std::string& table, int rows) {
    std::vector<std::string_view> lines = split(table, '\n');
    if (lines.back().empty()) lines.pop_back();
    all_ = static_cast<int>(lines.size()) - 1;
    rows_ = std::max(1, rows - 1);
    first_ = std::clamp(first_, 0, std::max(0, all_ - rows_));
    const int end = std::min(all_, first_ + rows_);
    std::string text = fmt::format("{}\n", lines[0]);
    for (int i = first_; i < end; ++i)
      text += fmt::format("{}\n", lines[static_cast<std::size_t>(i) + 1]);
    others_ = all_ > rows_
                  ? fmt::format("jobs {} to {} of {}; arrow keys and page keys show the others",
                                first_ + 1, end, all_)
                  : "";
    return text;
  }
  const std::string& others() const { return others_; }

 private:
  int first_ = 0;
  int rows_ = 1;
  int all_ = 0;
  std::string others_;
};

// A whole screen: the cluster, as many jobs as fit, and a last line.
std::string screen_text(const json& seen, double at, const std::string& url, bool away,
                        Window& window) {
  constexpr int kHead = 4;
  constexpr int kFoot = 1;
  const int rows = Screen::size().rows - 1 - kHead - kFoot;
  const std::string table = window.cut(job_table(seen["jobs"], at).text(), rows);
  std::string last = "q quits";
  if (!window.others().empty()) last = window.others() + "; " + last;
  if (away) last = "the daemon does not answer; this is the last known state; " + last;
  return head_of(seen, at, url) + table + last + "\n";
}

struct TopArguments {
  double every_s = 1;
  bool as_json = false;
};

int top(const TopArguments& a, const ServerChoice& server) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  Result<json> seen = look(*client);
  if (!seen.ok()) return fail(seen.error());
  if (a.as_json) {
    print_json(*seen);
    return 0;
  }
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
    fmt::print("{}{}", head_of(*seen, unix_now(), client->url()),
               job_table((*seen)["jobs"], unix_now()).text());
    return 0;
  }
  const bool color = wants_color(stdout);
  const InterruptNoted noted;
  Screen screen;
  Window window;
  double seen_at = unix_now();
  double looked_at = 0;
  bool away = false;
  for (Screen::Key key = Screen::Key::kNone; key != Screen::Key::kQuit;) {
    if (unix_now() >= looked_at + a.every_s) {
      Result<json> now = look(*client);
      looked_at = unix_now();
      away = !now.ok();
      if (away) {
        // Keep showing the last state. A restarted daemon may have another address.
        if (Result<Client> again = Client::make(server); again.ok()) client = std::move(again);
      } else {
        seen = std::move(now);
        seen_at = looked_at;
      }
    }
    window.move(key);
    screen.draw(screen_text(*seen, seen_at, client->url(), away, window), color);
    key = screen.key_within(std::clamp(looked_at + a.every_s - unix_now(), 0.01, a.every_s));
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<TopArguments>();
  CLI::App* sub = app.add_subcommand(
      "top", "Show the cluster and its jobs, live (arrow keys and page keys scroll, q quits)");
  sub->add_option("--every", a->every_s, "Seconds between updates")
      ->check(between(0.1, 3600.0))
      ->capture_default_str();
  sub->add_flag("--json", a->as_json, "Print once, as JSON");
  sub->callback(
      [a, &context, &chosen] { chosen = [a, &context] { return top(*a, context.server); }; });
}

}  // namespace rubato::cli
