#include "elastic/launch/interrupts.h"

#include <csignal>

namespace rubato::elastic {

namespace {

volatile std::sig_atomic_t g_interrupts = 0;
void on_interrupt(int) { g_interrupts = g_interrupts + 1; }

}  // namespace

void count_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

int interrupts() { return g_interrupts; }

}  // namespace rubato::elastic
