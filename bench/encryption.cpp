// What the protection of connections between workers costs (make bench-encryption): a stream over
// the loopback interface, plain and encrypted in turns, and the seal of a control frame.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "elastic/transport/frame_seal.h"
#include "elastic/transport/stream.h"

namespace {

using namespace rubato::elastic;
using std::chrono::steady_clock;

constexpr std::size_t kBlock = 16 << 20;  // what a gateway sends in one go: a slice of gradients
constexpr int kBlocks = 64;               // a GiB per turn
constexpr int kTurns = 7;                 // of each kind
constexpr std::size_t kHeader = 112;      // precedes each block, as on a bridge

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// Of this process, user and system.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::array<Descriptor, 2> loopback() {
  Descriptor listening(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  RUBATO_CHECK(bind(listening.get(), raw, size) == 0 && listen(listening.get(), 1) == 0 &&
                   getsockname(listening.get(), raw, &size) == 0,
               "cannot listen");
  Descriptor a(socket(AF_INET, SOCK_STREAM, 0));
  RUBATO_CHECK(connect(a.get(), raw, size) == 0, "cannot connect");
  Descriptor b(accept(listening.get(), nullptr, nullptr));
  return {std::move(a), std::move(b)};
}

struct Price {
  double seconds = 0;
  double processor_s = 0;  // of sender and receiver together
};

Price transfer(bool encrypt) {
  std::array<Descriptor, 2> sockets = loopback();
  SessionKeys keys{.encrypt = encrypt};
  const Stream from(std::move(sockets[0]), keys);
  const Stream to(std::move(sockets[1]), keys);
  std::vector<std::byte> out(kBlock, std::byte{1});
  std::vector<std::byte> in(kBlock);
  std::array<std::byte, kHeader> header{};
  const double processor = processor_seconds();
  const auto begin = steady_clock::now();
  std::thread sender([&] {
    const std::array<std::byte, kHeader> own{};
    for (int i = 0; i < kBlocks; ++i) {
      RUBATO_CHECK(from.send(own, true) && from.send(out, true) && from.flush(), "cannot send");
    }
  });
  for (int i = 0; i < kBlocks; ++i) {
    RUBATO_CHECK(to.receive(header) && to.receive(in), "cannot receive");
  }
  sender.join();
  RUBATO_CHECK(in == out, "other bytes arrived");
  return {.seconds = seconds_since(begin), .processor_s = processor_seconds() - processor};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void print_streams() {
  constexpr double kGigabytes = double{kBlock} * kBlocks / 1e9;
  std::array<std::vector<double>, 2> speed;  // plain, encrypted
  std::array<std::vector<double>, 2> price;
  std::vector<double> ratio;
  for (int turn = 0; turn <= kTurns; ++turn) {
    for (const std::size_t encrypt : {0U, 1U}) {
      const Price cost = transfer(encrypt == 1);
      if (turn == 0) continue;  // to warm up
      speed[encrypt].push_back(kGigabytes / cost.seconds);
      price[encrypt].push_back(cost.processor_s / kGigabytes);
    }
    if (turn > 0) ratio.push_back(speed[1].back() / speed[0].back());
  }
  fmt::print("a stream over loopback, {} MiB at a time, median of {} turns:\n", kBlock >> 20,
             kTurns);
  for (const std::size_t encrypt : {0U, 1U}) {
    fmt::print("  {:<10} {:5.2f} GB/s   {:.2f} s of processor time per GB at both ends\n",
               encrypt == 1 ? "encrypted" : "plain", median(speed[encrypt]),
               median(price[encrypt]));
  }
  fmt::print("  encrypted / plain: {:.2f} of the speed, {:.2f} times the processor time\n",
             median(ratio), median(price[1]) / median(price[0]));
}

void print_frames() {
  constexpr int kFrames = 20'000;
  const std::string payload(100, 'x');
  fmt::print("a control frame of {} bytes, sealed and opened:\n", payload.size());
  for (const bool encrypt : {false, true}) {
    std::vector<double> turns;
    for (int turn = 0; turn < kTurns; ++turn) {
      FrameSealer sealer({}, encrypt);
      FrameOpener opener({}, encrypt);
      FrameReader reader;
      const double begin = processor_seconds();
      for (int i = 0; i < kFrames; ++i) {
        const std::string sealed = sealer.seal(16, payload);
        RUBATO_CHECK(reader.feed(std::as_bytes(std::span(sealed))).ok(), "no frame");
        RUBATO_CHECK(opener.open(*reader.next()).ok(), "the frame does not open");
      }
      turns.push_back((processor_seconds() - begin) / kFrames * 1e6);
    }
    fmt::print("  {:<10} {:5.2f} us of processor time\n", encrypt ? "AES-GCM" : "HMAC",
               median(turns));
  }
}

}  // namespace

int main() {
  const rubato::Status able = check_encryption();
  if (!able.ok()) {
    fmt::print(stderr, "{}\n", able.error().message);
    return 1;
  }
  double load = 0;
  getloadavg(&load, 1);
  fmt::print("{}; {} processors, load of the machine {:.0f}\n", libcrypto()->file,
             std::thread::hardware_concurrency(), load);
  print_streams();
  print_frames();
  return 0;
}
