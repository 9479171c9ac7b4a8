// Lets other threads share a thread's held-back text (TextHold): text that a stream's worker prints for a call is kept in order with the
// call's own text.
#pragma once

namespace lamina {

struct HeldText;

HeldText* held_text();  // of this thread; null when its text is not held back

// While it lives, this thread's text is added to `held`, whose owner waits for this thread. Does nothing when `held` is null.
class HoldTextWith {
 public:
  explicit HoldTextWith(HeldText* held);
  ~HoldTextWith();
  HoldTextWith(const HoldTextWith&) = delete;

 private:
  HeldText* before_;
};

}  // namespace lamina
