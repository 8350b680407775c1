// Ctrl-C inside a kernel: long loops ask now and then whether to stop, and the call then raises what Python's handler
// raised.
#pragma once

#include <cstdint>

namespace ff {

// One long call, made without the interpreter's lock. Only the calling thread asks Python, a few times in a second; the
// others see what it found. Python answers signals in its main thread only, so elsewhere nothing is ever found.
class Interruption {
  public:
    Interruption();
    // Whether the rest of the loop is to be skipped. Any thread of the team may call it.
    bool asked();
    // Raise the exception of Python's handler, if there was one. For the calling thread, after the loop.
    void raise() const;

  private:
    int64_t last_;
    bool found_ = false;
};

}  // namespace ff
