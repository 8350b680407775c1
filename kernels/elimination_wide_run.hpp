// Wide eliminations from end to end: which messages are made, kept and made again, and in which memory.
//
// On the way forward a message lives until the bucket that takes it. The way back needs all of them. Where they would
// take too much memory, the buckets are cut into segments: only messages that cross from one segment to another are
// kept, and those inside a segment are made again when the way back arrives there.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "elimination.hpp"
#include "elimination_wide.hpp"
#include "philox.hpp"

namespace ff {

// Blocks of memory that messages hand on to each other.
class BlockPool {
  public:
    using Block = std::pair<int64_t, std::unique_ptr<double[]>>;

    Block take(int64_t size) {
        auto found = free_.end();
        for (auto block = free_.begin(); block != free_.end(); ++block)
            if (block->first >= size && (found == free_.end() || block->first < found->first)) found = block;
        if (found == free_.end()) return Block(size, new double[static_cast<size_t>(std::max<int64_t>(size, 1))]);
        Block block = std::move(*found);
        free_.erase(found);
        return block;
    }

    void give(Block& block) {
        if (block.second) free_.push_back(std::move(block));
        block.second.reset();
    }

  private:
    std::vector<Block> free_;
};

class WideElimination {
  public:
    // `most_doubles`: what the messages of all buckets may take before the buckets are cut into segments.
    WideElimination(const Programs& programs, int32_t model, bool tangent, int64_t most_doubles)
        : p_(programs),
          tangent_(tangent),
          first_(programs.bucket_ptr[model]),
          n_(programs.bucket_ptr[model + 1] - first_),
          cells_(static_cast<size_t>(programs.cell_count[model] * (tangent ? 2 : 1))),
          totals_(cells_.size()),
          buckets_(static_cast<size_t>(n_)) {
        std::vector<int32_t> card(static_cast<size_t>(n_));
        for (int32_t b = first_; b < first_ + n_; ++b) card[static_cast<size_t>(p_.bucket_var[b])] = p_.bucket_card[b];
        for (int32_t b = 0; b < n_; ++b) lay_out(b, card);
        cut(most_doubles);
    }

    // One configuration; returns true where it had to be done in log space.
    bool run(const Tables& tables, const Request& request, const Batch& batch) {
        const bool back = request.marginals || request.marginal_slope || request.each;
        bool log_space = false;
        double log_z = 0.0, slope = 0.0;
        if (!forward(tables, request.bases, batch, WideMode::sum, back, log_z, slope)) {
            log_space = true;
            forward(tables, request.bases, batch, WideMode::log_sum, back, log_z, slope);
        }
        if (request.log_z) request.log_z[batch.first] = log_z;
        if (request.slope) request.slope[batch.first] = slope;
        if (back) {
            backward(log_space ? WideMode::log_sum : WideMode::sum);
            FF_CALL(scatter_once)(p_, request, batch, tangent_, totals_.data());
        }
        return log_space;
    }

    // States of the free variables for each line, the last eliminated first; returns log Z or the maximum.
    double decode(const Tables& tables, const int64_t* bases, bool maximise, std::vector<Philox>& random,
                  int32_t* states, int64_t width) {
        const WideMode mode = maximise ? WideMode::maximum : WideMode::log_sum;
        double log_z = 0.0, slope = 0.0;
        forward(tables, bases, Batch{0, 0, 1, 0}, mode, true, log_z, slope);
        for (size_t segment = segments_.size() - 1; segment-- > 0;) {
            if (segment + 2 < segments_.size()) again(segment, mode);
            for (int32_t b = segments_[segment + 1] - 1; b >= segments_[segment]; --b) {
                for (size_t row = 0; row < random.size(); ++row)
                    decode_bucket(b, maximise, random[row], states + static_cast<int64_t>(row) * width);
                pool_.give(at(b).message);
            }
        }
        return log_z;
    }

  private:
    struct Bucket {
        int64_t separator = 1, inner = 1, outer = 1;
        std::vector<int32_t> outer_card;
        std::vector<WideInput> inputs;  // the small ones first
        std::vector<int32_t> source;    // of each input: >= 0 a group, < 0: -1 - bucket (counted in this template)
        std::vector<std::vector<int32_t>> maps;
        std::vector<std::vector<int64_t>> steps;  // over the outer variables
        int32_t small = 0, taker = -1;
        bool crosses = false;  // the message is taken in another segment
        double factor = 1.0;
        BlockPool::Block message, marginal;
    };

    Bucket& at(int32_t b) { return buckets_[static_cast<size_t>(b)]; }

    void lay_out(int32_t b, const std::vector<int32_t>& card) {
        Bucket& bucket = at(b);
        const int32_t whole = first_ + b;
        const int32_t* separator = p_.separator_var + p_.separator_ptr[whole];
        const int32_t digits = p_.separator_ptr[whole + 1] - p_.separator_ptr[whole];
        int32_t outer = digits;
        while (outer > 0) {
            const int64_t wider = bucket.inner * card[static_cast<size_t>(separator[outer - 1])];
            if (bucket.inner > 1 && wider > wide_block) break;
            bucket.inner = wider;
            --outer;
        }
        for (int32_t d = 0; d < outer; ++d) {
            bucket.outer_card.push_back(card[static_cast<size_t>(separator[d])]);
            bucket.outer *= bucket.outer_card.back();
        }
        bucket.separator = bucket.inner * bucket.outer;
        for (const bool small : {true, false})
            for (int32_t i = p_.input_ptr[whole]; i < p_.input_ptr[whole + 1]; ++i) {
                const int32_t source = p_.input_source[i];
                if ((source >= 0) != small) continue;
                if (!small) at(-1 - source - first_).taker = b;
                const int64_t* step = p_.input_step + p_.step_ptr[i];
                std::vector<int32_t> map(static_cast<size_t>(bucket.inner), 0);
                int64_t filled = 1;
                for (int32_t d = digits - 1; d >= outer; --d) {
                    const int32_t states = card[static_cast<size_t>(separator[d])];
                    for (int32_t k = 1; k < states; ++k)
                        for (int64_t e = 0; e < filled; ++e)
                            map[static_cast<size_t>(k * filled + e)] =
                                map[static_cast<size_t>(e)] + k * static_cast<int32_t>(step[1 + d]);
                    filled *= states;
                }
                WideInput input{};
                input.variable_step = step[0];
                input.kind = kind_of(map);
                input.unit = small && tangent_ ? 2 : 1;
                bucket.small += small;
                bucket.source.push_back(small ? source : source + first_);
                bucket.steps.emplace_back(step + 1, step + 1 + outer);
                bucket.maps.push_back(std::move(map));
                bucket.inputs.push_back(input);
            }
        for (size_t i = 0; i < bucket.inputs.size(); ++i) {
            bucket.inputs[i].outer_step = bucket.steps[i].data();
            bucket.inputs[i].map = bucket.maps[i].data();
        }
        scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(wide_scratch(
                                                      p_.bucket_card[whole], std::max<int64_t>(1, bucket.inner)))));
        places_.resize(std::max(places_.size(), 2 * bucket.inputs.size()));
        digits_.resize(std::max(digits_.size(), bucket.outer_card.size()));
    }

    static WideKind kind_of(const std::vector<int32_t>& map) {
        bool contiguous = true, constant = true, twice = map.size() % 2 == 0;
        for (size_t e = 0; e < map.size(); ++e) {
            contiguous = contiguous && map[e] == static_cast<int32_t>(e);
            constant = constant && map[e] == 0;
            twice = twice && map[e] == static_cast<int32_t>(e / 2);
        }
        return contiguous ? WideKind::contiguous
               : constant ? WideKind::constant
               : twice    ? WideKind::twice
                          : WideKind::mapped;
    }

    // As few segments as keep the messages that are held at once within the limit, or those that hold the fewest.
    void cut(int64_t most_doubles) {
        const int64_t unit = tangent_ ? 2 : 1;
        int64_t all = 0;
        for (const Bucket& bucket : buckets_) all += bucket.separator * unit;
        int64_t least = INT64_MAX;
        std::vector<int32_t> segments;
        for (int64_t count = 1; count <= std::min<int64_t>(n_, 64) && least > most_doubles; ++count) {
            segments.assign(1, 0);
            int64_t sum = 0;
            for (int32_t b = 0; b < n_; ++b) {
                sum += at(b).separator * unit;
                if (sum >= all * static_cast<int64_t>(segments.size()) / count && b + 1 < n_) segments.push_back(b + 1);
            }
            segments.push_back(n_);
            int64_t kept = 0, longest = 0;
            for (size_t s = 0; s + 1 < segments.size(); ++s) {
                int64_t own = 0;
                for (int32_t b = segments[s]; b < segments[s + 1]; ++b) {
                    own += at(b).separator * unit;
                    if (at(b).taker >= segments[s + 1]) kept += at(b).separator * unit;
                }
                longest = std::max(longest, own);
            }
            if (kept + longest < least) {
                least = kept + longest;
                segments_ = segments;
            }
        }
        if (segments_.empty()) segments_ = {0, n_};
        for (size_t s = 0; s + 1 < segments_.size(); ++s)
            for (int32_t b = segments_[s]; b < segments_[s + 1]; ++b) at(b).crosses = at(b).taker >= segments_[s + 1];
    }

    WideBucket view(int32_t b) {
        Bucket& bucket = at(b);
        for (size_t i = 0; i < bucket.inputs.size(); ++i) {
            WideInput& input = bucket.inputs[i];
            if (bucket.source[i] >= 0) {
                const int64_t cell = p_.group_cell[bucket.source[i]] * input.unit;
                input.value = cells_.data() + cell;
                input.slope = input.value + 1;
                input.total = totals_.data() + cell;
                input.total_slope = input.total + 1;
                input.factor = 1.0;
            } else {
                const Bucket& from = at(-1 - bucket.source[i]);
                input.value = from.message.second.get();
                input.slope = input.value + from.separator;
                input.total = from.marginal.second.get();
                input.total_slope = input.total + from.separator;
                input.factor = from.factor;
            }
        }
        WideBucket result{};
        result.card = p_.bucket_card[first_ + b];
        result.digits = static_cast<int32_t>(bucket.outer_card.size());
        result.outer_card = bucket.outer_card.data();
        result.outer = bucket.outer;
        result.inner = bucket.inner;
        result.inputs = bucket.inputs.data();
        result.small = bucket.small;
        result.count = static_cast<int32_t>(bucket.inputs.size());
        result.message = bucket.message.second.get();
        result.message_slope = result.message + bucket.separator;
        result.marginal = bucket.marginal.second.get();
        result.marginal_slope = result.marginal + bucket.separator;
        result.scratch = scratch_.data();
        result.places = places_.data();
        result.digit = digits_.data();
        return result;
    }

    // Make the message of a bucket. False where an entry may have been lost to underflow.
    bool make(int32_t b, WideMode mode) {
        Bucket& bucket = at(b);
        bucket.message = pool_.take(bucket.separator * (tangent_ ? 2 : 1));
        const WideRange range = FF_CALL(wide_forward)(view(b), mode, tangent_);
        if (mode != WideMode::sum) return true;
        bucket.factor = 1.0 / range.largest;
        return range.largest > 1e-200 && range.largest < __builtin_inf() && range.smallest > 1e-100 * range.largest;
    }

    bool forward(const Tables& tables, const int64_t* bases, const Batch& batch, WideMode mode, bool back,
                 double& log_z, double& slope) {
        for (Bucket& bucket : buckets_) pool_.give(bucket.message);
        log_z = slope = 0.0;
        if (!FF_CALL(gather_once)(p_, tables, batch, bases, mode != WideMode::sum, cells_.data(), &log_z)) return false;
        const int32_t last_segment = segments_[segments_.size() - 2];
        for (int32_t b = 0; b < n_; ++b) {
            if (!make(b, mode)) return false;
            Bucket& bucket = at(b);
            const double* message = bucket.message.second.get();
            if (mode == WideMode::sum) log_z -= std::log(bucket.factor);
            if (bucket.taker < 0) {
                if (mode != WideMode::sum) log_z += message[0];
                if (tangent_) slope += mode == WideMode::sum ? message[1] / message[0] : message[1];
            }
            for (const int32_t source : bucket.source)
                if (source < 0) {
                    const int32_t from = -1 - source;
                    if (!back || !(at(from).crosses || from >= last_segment)) pool_.give(at(from).message);
                }
            if (bucket.taker < 0 && !back) pool_.give(bucket.message);
        }
        return true;
    }

    // Make the messages of a segment that have been dropped.
    void again(size_t segment, WideMode mode) {
        for (int32_t b = segments_[segment]; b < segments_[segment + 1]; ++b)
            if (!at(b).message.second) make(b, mode);
    }

    void backward(WideMode mode) {
        const int64_t unit = tangent_ ? 2 : 1;
        std::fill(totals_.begin(), totals_.end(), 0.0);
        for (size_t segment = segments_.size() - 1; segment-- > 0;) {
            if (segment + 2 < segments_.size()) again(segment, mode);
            for (int32_t b = segments_[segment + 1] - 1; b >= segments_[segment]; --b) {
                Bucket& bucket = at(b);
                if (bucket.taker < 0) {
                    bucket.marginal = pool_.take(unit);
                    bucket.marginal.second[0] = 1.0;
                    if (tangent_) bucket.marginal.second[1] = 0.0;
                }
                for (const int32_t source : bucket.source)
                    if (source < 0) {
                        Bucket& from = at(-1 - source);
                        from.marginal = pool_.take(from.separator * unit);
                        std::fill_n(from.marginal.second.get(), from.separator * unit, 0.0);
                    }
                FF_CALL(wide_backward)(view(b), mode, tangent_);
                pool_.give(bucket.message);
                pool_.give(bucket.marginal);
            }
        }
    }

    void decode_bucket(int32_t b, bool maximise, Philox& random, int32_t* states) {
        const Bucket& bucket = at(b);
        const int32_t whole = first_ + b, card = p_.bucket_card[whole];
        const int32_t* separator = p_.separator_var + p_.separator_ptr[whole];
        const int32_t digits = p_.separator_ptr[whole + 1] - p_.separator_ptr[whole];
        row_.assign(static_cast<size_t>(card), 0.0);
        for (int32_t i = p_.input_ptr[whole]; i < p_.input_ptr[whole + 1]; ++i) {
            const int32_t source = p_.input_source[i];
            const double* table =
                source >= 0 ? cells_.data() + p_.group_cell[source] : at(-1 - source - first_).message.second.get();
            const int64_t* step = p_.input_step + p_.step_ptr[i];
            int64_t place = 0;
            for (int32_t k = 0; k < digits; ++k) place += states[p_.variable[separator[k]]] * step[1 + k];
            for (int32_t v = 0; v < card; ++v) row_[static_cast<size_t>(v)] += table[place + v * step[0]];
        }
        int64_t place = 0;
        for (int32_t k = 0; k < digits; ++k)
            place += static_cast<int64_t>(states[p_.variable[separator[k]]]) *
                     p_.separator_stride[p_.separator_ptr[whole] + k];
        const double log_sum = bucket.message.second[static_cast<size_t>(place)];
        int32_t chosen = 0;
        if (maximise) {
            chosen = static_cast<int32_t>(std::max_element(row_.begin(), row_.end()) - row_.begin());
        } else {
            double rest = random.next();
            // Rounding may leave a little of the unit interval; a state of probability 0 must not get it.
            for (int32_t v = 0; v < card; ++v) {
                const double probability = std::exp(row_[static_cast<size_t>(v)] - log_sum);
                if (probability > 0.0) chosen = v;
                if (rest < probability) break;
                rest -= probability;
            }
        }
        states[p_.variable[p_.bucket_var[whole]]] = chosen;
    }

    Programs p_;
    bool tangent_;
    int32_t first_, n_;
    std::vector<double> cells_, totals_;  // reduced tables of the groups, and their marginals
    std::vector<Bucket> buckets_;
    std::vector<int32_t> segments_;
    std::vector<double> scratch_, row_;
    std::vector<int64_t> places_;
    std::vector<int32_t> digits_;
    BlockPool pool_;
};

}  // namespace ff
