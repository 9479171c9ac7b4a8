// How many worker threads this process has started, and whether there is a core for each of them.
#pragma once

namespace lamina {

void count_worker(int change);  // +1 when one starts, -1 when one ends; forgotten after fork
bool may_spin();                // all workers and one caller have a core each

}  // namespace lamina
