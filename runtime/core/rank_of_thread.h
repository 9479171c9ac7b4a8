// Which rank of a job a thread is, where ranks are threads (runtime/dist). What the thread starts on streams is of the same rank.
#pragma once

namespace lamina {
namespace distributed {
class Communicator;
}

distributed::Communicator*& rank_of_thread();  // null: the whole process is one rank

}  // namespace lamina
