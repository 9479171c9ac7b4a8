// Counts this process's worker threads, and tells whether each has a core.
#pragma once

namespace lamina {

void count_worker(int change);  // +1 at a start, -1 at an end; reset after fork
bool may_spin();                // whether all workers and one caller have a core each

}  // namespace lamina
