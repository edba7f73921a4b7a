// rubato top: shows the cluster and its jobs, live on a terminal and once otherwise.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>

#include "commands.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

volatile std::sig_atomic_t g_interrupted = 0;  // a signal handler can access nothing else
void note_interrupt(int) { g_interrupted = 1; }

// A terminal in full-screen mode: keys are read without Enter and not echoed. The destructor
// restores the terminal.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    struct sigaction action {};
    action.sa_handler = note_interrupt;  // without SA_RESTART, so that poll() returns
    for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
    fmt::print("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws as many lines and columns as fit, the first line in bold.
  void draw(std::string_view text, bool color) const {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size = {24, 100, 0, 0};
    std::string out = "\x1b[H";
    std::string_view rest = text;
    for (int row = 0; row + 1 < size.ws_row && !rest.empty(); ++row) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, std::min<std::size_t>(end, size.ws_col));
      const bool bold = row == 0 && color;
      out += fmt::format("{}{}{}", bold ? "\x1b[1m" : "", line, bold ? "\x1b[0m" : "");
      out += "\x1b[K\r\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    out += "\x1b[J";
    fmt::print("{}", out);
    std::fflush(stdout);
  }
  // True after q or an interrupt.
  static bool wait_for_quit(double seconds) {
    pollfd key{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = poll(&key, 1, static_cast<int>(seconds * 1000));
    if (g_interrupted != 0) return true;
    if (ready <= 0) return false;
    char c = 0;
    return read(STDIN_FILENO, &c, 1) != 1 || c == 'q' || c == 'Q';
  }

 private:
  termios before_{};
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
  Result<json> jobs = client.get("/jobs?active=true&limit=200");
  if (!jobs.ok()) return jobs;
  // Jobs with devices come first; they are the ones that change.
  std::stable_partition((*jobs)["jobs"].begin(), (*jobs)["jobs"].end(),
                        [](const json& job) { return job.value("granted", 0) > 0; });
  return json{{"cluster", std::move(*cluster)}, {"jobs", std::move((*jobs)["jobs"])}};
}

std::string page(const json& seen, double at, const std::string& url) {
  return fmt::format("rubato {}  {}\n{}\n{}\n\n{}", url, time_text(at),
                     cluster_line(seen["cluster"]), bar(seen["cluster"], 50),
                     job_table(seen["jobs"], at).text());
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
    fmt::print("{}", page(*seen, unix_now(), client->url()));
    return 0;
  }
  const bool color = wants_color(stdout);
  const Screen screen;
  double seen_at = unix_now();
  do {
    Result<json> now = look(*client);
    const bool away = !now.ok();
    if (away) {
      // Keep showing the last state. A restarted daemon may have another address.
      if (Result<Client> again = Client::make(server); again.ok()) client = std::move(again);
    } else {
      seen = std::move(now);
      seen_at = unix_now();
    }
    const std::string text =
        page(*seen, seen_at, client->url()) +
        (away ? "\nthe daemon does not answer; this is the last known state\n" : "\n") +
        "q quits\n";
    screen.draw(text, color);
  } while (!Screen::wait_for_quit(a.every_s));
  return 0;
}

}  // namespace

void add_top(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<TopArguments>();
  CLI::App* sub = app.add_subcommand("top", "Show the cluster and its jobs, live (q quits)");
  sub->add_option("--every", a->every_s, "Seconds between updates")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  sub->add_flag("--json", a->as_json, "Print once, as JSON");
  sub->callback(
      [a, &context, &chosen] { chosen = [a, &context] { return top(*a, context.server); }; });
}

}  // namespace rubato::cli
