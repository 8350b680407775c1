// Memory that evaluations hand on to each other.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

namespace ff {

// Memory for evaluations, handed out and taken back. It holds no results: only pages that are mapped already.
class ScratchPool {
  public:
    class Lease {
      public:
        Lease(ScratchPool& pool, std::unique_ptr<double[]> block, int64_t size)
            : pool_(pool), block_(std::move(block)), size_(size) {}
        Lease(Lease&&) = default;
        ~Lease() {
            if (block_) pool_.give(std::move(block_), size_);
        }
        double* data() const { return block_.get(); }

      private:
        ScratchPool& pool_;
        std::unique_ptr<double[]> block_;
        int64_t size_;
    };

    Lease take(int64_t size) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (kept_ && kept_size_ >= size) {
                const int64_t had = kept_size_;
                kept_size_ = 0;
                return Lease(*this, std::move(kept_), had);
            }
        }
        // Not set to zero: the kernels write before they read, and pages that nobody touches cost nothing.
        return Lease(*this, std::unique_ptr<double[]>(new double[static_cast<size_t>(size)]), size);
    }

  private:
    void give(std::unique_ptr<double[]> block, int64_t size) {
        std::lock_guard<std::mutex> guard(mutex_);
        if (size > kept_size_) {
            kept_ = std::move(block);
            kept_size_ = size;
        }
    }

    std::mutex mutex_;
    std::unique_ptr<double[]> kept_;
    int64_t kept_size_ = 0;
};

}  // namespace ff
