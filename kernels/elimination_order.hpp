// Elimination orders: in which order to sum out the variables of a graph, so that the tables stay small.
//
// Summing out a variable joins its neighbours in one table. The best order is hard to find, so several heuristics are
// tried and the cheapest order is kept: greedy orders (min-fill, min-weight), then, where those are expensive, sweeps
// across the graph (row by row on a grid), nested dissection, greedy orders with random ties, and moves of single
// variables. The effort is counted in steps, never in seconds, so that the order is the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace ff {

class OrderSearch {
  public:
    OrderSearch(const int32_t* cardinality, const int64_t* first, const int32_t* neighbour, int32_t n, double limit);

    // log2 of the entries that some table of every order has; `bound_width` is a lower bound on the width.
    double bound() const { return bound_; }
    int32_t bound_width() const { return bound_width_; }

    // Both greedy orders, and more where they cost over `enough` entries or pass the limit.
    void run(double enough);
    const std::vector<int32_t>& best() const { return best_; }
    int32_t tried() const { return tried_; }

  private:
    struct Cost {
        double largest;  // entries of the largest table
        double total;    // entries of all tables
    };
    using Order = std::vector<int32_t>;

    void find_bound();
    Order greedy(bool fill_first, bool random);
    Cost evaluate(const Order& order, double enough);
    bool better(const Cost& a, const Cost& b) const;
    void consider(Order order);
    std::vector<int32_t> distances(const std::vector<int32_t>& inside, int32_t mark, int32_t from);
    void sweeps();
    Order frontier_sweep(const std::vector<int32_t>& starts);
    void dissect(std::vector<int32_t> part, Order& order);
    void improve(double until);
    uint64_t random();

    int32_t n_;
    std::vector<double> states_;
    std::vector<std::vector<int32_t>> around_;
    double limit_;
    double bound_ = 0.0;
    int32_t bound_width_ = 0;
    std::vector<int32_t> part_of_;  // which part of a dissection a vertex is in
    int32_t parts_ = 0;
    Order best_;
    Cost best_cost_{0.0, 0.0};
    int32_t tried_ = 0;
    double steps_ = 0.0;
    uint64_t random_state_ = 0;
    // Of `evaluate`, kept from one order to the next; children form a linked list.
    std::vector<int32_t> place_, stamp_, eldest_child_, next_child_;
    std::vector<std::vector<int32_t>> separator_;
};

}  // namespace ff
