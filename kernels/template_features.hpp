// Feature templates applied to sentences of codes: what a cell reads at a token, the key of a template's cells, and the
// code of the feature with this key. src/fieldfit/data/keys.py describes the keys.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ff {

// The code that a cell reads `row` tokens away from token t of n: codes from `size` on are places outside the sentence,
// the first `reach` of them before it.
inline int64_t cell_code(const int32_t* codes, int64_t n, int64_t t, int64_t row, int64_t size, int64_t reach) {
    const int64_t at = t + row;
    if (at < 0) return size - 1 - at;
    if (at >= n) return size + reach + at - n;
    return codes[at];
}

// The places of keys in a list, which the caller keeps, by open addressing.
class KeyTable {
  public:
    KeyTable() = default;
    KeyTable(const int64_t* keys, int64_t count) : keys_(keys), count_(count) {
        size_t size = 2;
        while (size < 2 * static_cast<size_t>(count)) size *= 2;
        while ((size_t{1} << (64 - shift_)) < size) --shift_;
        slots_.assign(size, -1);
        for (int64_t i = 0; i < count; ++i) {
            size_t slot = slot_of(keys[i]);
            while (slots_[slot] >= 0) slot = (slot + 1) & (size - 1);
            slots_[slot] = static_cast<int32_t>(i);
        }
    }

    int64_t size() const { return count_; }
    void prefetch(int64_t key) const { __builtin_prefetch(&slots_[slot_of(key)]); }

    // The place of a key, or -1.
    int32_t find(int64_t key) const {
        for (size_t slot = slot_of(key);; slot = (slot + 1) & (slots_.size() - 1)) {
            const int32_t place = slots_[slot];
            if (place < 0 || keys_[place] == key) return place;
        }
    }

  private:
    size_t slot_of(int64_t key) const {
        return static_cast<size_t>((static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15u) >> shift_);
    }

    const int64_t* keys_ = nullptr;
    int64_t count_ = 0;
    std::vector<int32_t> slots_ = {-1, -1};
    int shift_ = 63;
};

struct TemplateCell {
    int32_t source, row;
};

// Templates that share their features. Their cells are equal in number and position by position in source.
struct TemplateBlock {
    std::vector<std::vector<TemplateCell>> templates;
    std::vector<int64_t> radices;
    std::vector<std::pair<bool, KeyTable>> ranks;  // of the keys so far, where they are replaced by their rank
    KeyTable keys;
    int32_t start = 0;  // the code of the first feature
};

// Codes of a sentence: those of source s at token t are codes[s][t].
struct CodedSentence {
    const int32_t* const* codes;
    int64_t length;
};

class TemplateFeatures {
  public:
    TemplateFeatures(std::vector<TemplateBlock> blocks, std::vector<int64_t> sizes, int64_t reach)
        : blocks_(std::move(blocks)), sizes_(std::move(sizes)), reach_(reach) {
        for (const TemplateBlock& block : blocks_) {
            n_templates_ += block.templates.size();
            size_ += block.keys.size();
        }
    }

    // The number of features.
    int64_t size() const { return size_; }

    // Call put(code) for the features of a token that occur in training.
    template <class Put>
    void visit(const CodedSentence& sentence, int64_t t, std::vector<int64_t>& keys, const Put& put) const {
        keys.resize(n_templates_);
        size_t place = 0;
        // A search waits for memory, so all of them begin before the first one ends.
        for (const TemplateBlock& block : blocks_)
            for (const auto& cells : block.templates) {
                const int64_t key = key_at(block, cells, sentence, t);
                if (key >= 0) block.keys.prefetch(key);
                keys[place++] = key;
            }
        place = 0;
        for (const TemplateBlock& block : blocks_)
            for (size_t i = 0; i < block.templates.size(); ++i) {
                const int64_t key = keys[place++];
                const int32_t found = key < 0 ? -1 : block.keys.find(key);
                if (found >= 0) put(block.start + found);
            }
    }

  private:
    int64_t key_at(const TemplateBlock& block, const std::vector<TemplateCell>& cells, const CodedSentence& sentence,
                   int64_t t) const {
        int64_t key = 0;
        for (size_t p = 0; p < cells.size(); ++p) {
            const size_t source = static_cast<size_t>(cells[p].source);
            const int64_t part =
                cell_code(sentence.codes[source], sentence.length, t, cells[p].row, sizes_[source], reach_);
            if (part < 0) return -1;
            if (block.ranks[p].first && (key = block.ranks[p].second.find(key)) < 0) return -1;
            // Numbers of a damaged file may overflow.
            key = static_cast<int64_t>(static_cast<uint64_t>(key) * static_cast<uint64_t>(block.radices[p]) +
                                       static_cast<uint64_t>(part));
        }
        return key;
    }

    std::vector<TemplateBlock> blocks_;
    std::vector<int64_t> sizes_;
    int64_t reach_;
    size_t n_templates_ = 0;
    int64_t size_ = 0;
};

}  // namespace ff
