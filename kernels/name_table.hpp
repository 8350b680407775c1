// A table of different names with codes 0, 1, 2, … in order of arrival: open addressing over one block of text.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace ff {

class NameTable {
  public:
    NameTable() : ends_{0}, slots_(64, 0) {}

    int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
    const char* text(int64_t code) const { return text_.data() + ends_[code]; }
    size_t length(int64_t code) const { return static_cast<size_t>(ends_[code + 1] - ends_[code]); }

    static uint64_t hash(const char* name, size_t length) {
        uint64_t hash = 0x2545f4914f6cdd1du ^ length;
        for (; length >= 8; name += 8, length -= 8) {
            uint64_t word;
            std::memcpy(&word, name, 8);
            hash = mix(hash ^ word) + 0x9e3779b97f4a7c15u;
        }
        uint64_t word = 0;
        if (length) std::memcpy(&word, name, length);
        return mix(hash ^ word);
    }

    // Three steps of one search, to be run over a batch each, so that the waits for memory overlap.
    void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
    void prefetch_end(uint64_t hash) const {
        const uint64_t entry = slots_[hash & (slots_.size() - 1)] & kCode;
        if (entry) __builtin_prefetch(&ends_[entry - 1]);
    }
    void prefetch_text(uint64_t hash) const {
        const uint64_t entry = slots_[hash & (slots_.size() - 1)] & kCode;
        if (entry) __builtin_prefetch(text(static_cast<int64_t>(entry) - 1));
    }

    // The code of a name, or -1.
    int32_t find(const char* name, size_t length, uint64_t hash) const {
        return static_cast<int32_t>(slots_[slot_of(name, length, hash)] & kCode) - 1;
    }

    // The code of a name, which is added if it is new.
    int32_t add(const char* name, size_t length, uint64_t hash) {
        size_t slot = slot_of(name, length, hash);
        if (slots_[slot]) return static_cast<int32_t>(slots_[slot] & kCode) - 1;
        const int64_t code = size();
        if (code >= INT32_MAX - 1) throw std::length_error("more than 2^31 different attributes");
        text_.insert(text_.end(), name, name + length);
        ends_.push_back(static_cast<int64_t>(text_.size()));
        slots_[slot] = (hash & ~kCode) | static_cast<uint64_t>(code + 1);
        if (2 * static_cast<size_t>(code + 1) > slots_.size()) grow();
        return static_cast<int32_t>(code);
    }

  private:
    // A slot holds the upper half of the hash and the code + 1; 0 is free. Most misses end without a look at the text.
    static constexpr uint64_t kCode = 0xffffffffu;

    static uint64_t mix(uint64_t word) {
        word ^= word >> 32;
        word *= 0x9e3779b97f4a7c15u;
        word ^= word >> 29;
        word *= 0xd6e8feb86659fd93u;
        return word ^ (word >> 32);
    }

    size_t slot_of(const char* name, size_t length, uint64_t hash) const {
        const size_t mask = slots_.size() - 1;
        for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
            const uint64_t entry = slots_[slot];
            if (!entry) return slot;
            if ((entry ^ hash) & ~kCode) continue;
            const int64_t code = static_cast<int64_t>(entry & kCode) - 1;
            if (this->length(code) == length && (!length || !std::memcmp(text(code), name, length))) return slot;
        }
    }

    void grow() {
        std::vector<uint64_t> old(slots_.size() * 2, 0);
        old.swap(slots_);
        const size_t mask = slots_.size() - 1;
        for (const uint64_t entry : old) {
            if (!entry) continue;
            const int64_t code = static_cast<int64_t>(entry & kCode) - 1;
            size_t slot = hash(text(code), length(code)) & mask;
            while (slots_[slot]) slot = (slot + 1) & mask;
            slots_[slot] = entry;
        }
    }

    std::vector<char> text_;
    std::vector<int64_t> ends_;
    std::vector<uint64_t> slots_;
};

}  // namespace ff
