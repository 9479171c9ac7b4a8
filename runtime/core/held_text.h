// The text that a thread holds back (TextHold), for other threads that work for it: what a stream's worker prints for a call waits with the
// call's other text, in order.
#pragma once

namespace lamina {

struct HeldText;

HeldText* held_text();  // of this thread; null when it holds none back

// Until it ends, this thread's text is held back with `held`, whose owner waits for this thread. Nothing changes when that is null.
class HoldTextWith {
 public:
  explicit HoldTextWith(HeldText* held);
  ~HoldTextWith();
  HoldTextWith(const HoldTextWith&) = delete;

 private:
  HeldText* before_;
};

}  // namespace lamina
