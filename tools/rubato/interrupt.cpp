#include "interrupt.h"

#include <csignal>
#include <initializer_list>

namespace rubato::cli {

namespace {

volatile std::sig_atomic_t g_interrupted = 0;  // a signal handler can reach nothing else
void note(int) { g_interrupted = 1; }

void handle_with(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART: poll() ends
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace

InterruptNoted::InterruptNoted() { handle_with(note); }
InterruptNoted::~InterruptNoted() { handle_with(SIG_DFL); }
bool interrupted() { return g_interrupted != 0; }

}  // namespace rubato::cli
