// Counts SIGINT and SIGTERM: the first one stops a job, the second one kills it.
#pragma once

namespace rubato::elastic {

void count_interrupts();  // from now on, instead of ending this process
int interrupts();

}  // namespace rubato::elastic
