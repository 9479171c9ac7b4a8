// Chooses devices for the nodes on kAutomatic: what was traced under lm.device("auto").
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/compile/compile.h"
#include "graph/cost/simulate.h"

namespace lamina::compile {

constexpr double kNever = 1e15;  // microseconds: a device has no kernel for it

// The parts that are placed as a whole, with their times on each device, and what passes between them.
struct Units {
  struct Value {
    int from = -1;      // the unit that makes it; -1: it is there from the beginning
    int location = -1;  // then: on which device; -1: on all of them
    double bytes = 0;
    ir::Value value;  // of the graph
  };
  struct Unit {
    std::vector<int> nodes;          // in program order
    int device = -1;                 // where it must be; -1: anywhere
    std::vector<int> needs;          // values
    std::vector<int> after;          // units that must come before it, also without a value
    std::vector<double> time;        // per device, with its launch
    std::vector<double> one_thread;  // the same with one thread of a CPU
    double makes = 0;                // bytes of its results
  };
  std::vector<Device> devices;
  std::vector<int> threads;  // of each device
  std::vector<Unit> units;   // in an order that respects `after`
  std::vector<Value> values;
  std::vector<int> location;  // per node of the graph that is there from the beginning: on which device; else -1
};
// merged: in graphs of more than a few nodes chains are one unit, and so is small work with its only neighbour; otherwise each node is one.
LAMINA_API Units units_of(const ir::Graph& g, const Options& options, const cost::Costs& costs, bool merged = true);

// A schedule of units: devices given, the order found by list scheduling.
struct Schedule {
  std::vector<int> device;     // per unit
  std::vector<int> order;      // of units
  double microseconds = 0;     // by the simulator
  std::vector<double> memory;  // per device: bytes at its peak
};
// Devices of units may be -1: the one where the unit ends first.
LAMINA_API Schedule schedule_units(const Units& units, const cost::Costs& costs, std::vector<int> device);
LAMINA_API Schedule best_schedule(const Units& units, const cost::Costs& costs, double memory, std::vector<exec::Candidate>& candidates);

struct Placed {
  ir::Graph graph;                          // no node is on kAutomatic; ordered by the time at which nodes start if some are elsewhere
  bool elsewhere = false;                   // whether not all is on the function's device
  std::vector<exec::Candidate> candidates;  // the one taken first
};
// Nothing when no node is on kAutomatic. Deterministic for given costs.
LAMINA_API std::optional<Placed> place(const ir::Graph& g, const Options& options);
// With every node on kAutomatic on one device.
LAMINA_API ir::Graph on_one_device(const ir::Graph& g, Device device);

}  // namespace lamina::compile
