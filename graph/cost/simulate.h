// Simulator: plays tasks on streams, in order of events, and returns the time line. Placement, explain and tests use this one.
#pragma once
#include <string>
#include <vector>

#include "graph/cost/costs.h"

namespace lamina::cost {

// Something that runs on a stream: an instruction, a copy, or several that follow each other.
struct Task {
  int stream = 0;
  double microseconds = 0;         // when nothing else runs
  int first_after = 0, after = 0;  // in Play::after: the tasks that must have ended before it starts
  int resources[2] = {-1, -1};     // what it uses beside its stream, such as a device's multiprocessors or the machine's cores
  double amounts[2] = {0, 0};
};

// Tasks in the order in which each stream runs them.
struct Play {
  std::vector<Task> tasks;
  std::vector<std::pair<int, double>> after;  // a task, and how long its end takes to be seen
  std::vector<double> resources;              // how much of each there is
  int streams = 0;

  // Adds a task, which starts after those in `earlier`; returns its number.
  int add(Task task, const std::vector<std::pair<int, double>>& earlier);
};

struct Timeline {
  std::vector<double> start, end;  // per task
  double microseconds = 0;         // until all have ended
};

// Streams run their tasks in order, and different streams concurrently. Tasks that want more of a resource than there is share it: all of
// them slow down. Throws internal when tasks wait for each other in a circle.
LAMINA_API Timeline simulate(const Play& play);
// A call of the program: one task per instruction.
LAMINA_API Play play_of(const exec::Program& program, const Costs& costs);
LAMINA_API Timeline simulate(const exec::Program& program, const Costs& costs);
// One line per instruction: from when until when, where and what.
LAMINA_API std::string text(const exec::Program& program, const Timeline& timeline);

}  // namespace lamina::cost
