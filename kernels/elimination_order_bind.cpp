#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "checks.hpp"
#include "elimination_order.hpp"

namespace ff {

namespace {

// Steps that the search beyond the greedy orders may take for each table entry of the best order so far, and in all.
constexpr double steps_for_each_entry = 4.0;
constexpr double most_steps = 3e7;
constexpr int32_t random_runs = 6;
constexpr size_t landmark_count = 4;

}  // namespace

OrderSearch::OrderSearch(const int32_t* cardinality, const int64_t* first, const int32_t* neighbour, int32_t n,
                         double limit)
    : n_(n), states_(cardinality, cardinality + n), around_(static_cast<size_t>(n)), limit_(limit) {
    for (int32_t v = 0; v < n; ++v)
        around_[static_cast<size_t>(v)].assign(neighbour + first[v], neighbour + first[v + 1]);
    part_of_.assign(static_cast<size_t>(n), 0);
    find_bound();
}

uint64_t OrderSearch::random() {  // splitmix64: the same numbers on every machine
    uint64_t z = (random_state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Take away, again and again, the variable whose table with its neighbours is smallest. The variable of what remains
// that an order eliminates first has at least that table, so the largest of these minima bounds every order.
void OrderSearch::find_bound() {
    for (const bool by_states : {true, false}) {
        using Entry = std::pair<double, int32_t>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap;
        std::vector<double> score(states_.size());
        std::vector<char> gone(states_.size(), 0);
        const auto weight = [&](int32_t v) { return by_states ? std::log2(states_[static_cast<size_t>(v)]) : 1.0; };
        for (int32_t v = 0; v < n_; ++v) {
            double total = weight(v);
            for (const int32_t u : around_[static_cast<size_t>(v)]) total += weight(u);
            score[static_cast<size_t>(v)] = total;
            heap.emplace(total, v);
        }
        double most = 0.0;
        while (!heap.empty()) {
            const auto [value, v] = heap.top();
            heap.pop();
            if (gone[static_cast<size_t>(v)] || value != score[static_cast<size_t>(v)]) continue;
            most = std::max(most, value);
            gone[static_cast<size_t>(v)] = 1;
            for (const int32_t u : around_[static_cast<size_t>(v)]) {
                if (gone[static_cast<size_t>(u)]) continue;
                score[static_cast<size_t>(u)] -= weight(v);
                heap.emplace(score[static_cast<size_t>(u)], u);
            }
        }
        if (by_states)
            bound_ = most;
        else
            bound_width_ = static_cast<int32_t>(most) - 1;
    }
}

// Min-fill eliminates the variable that adds the fewest edges, min-weight the one with the smallest table; each breaks
// ties by the other and then by the variable's number, or at random.
OrderSearch::Order OrderSearch::greedy(bool fill_first, bool at_random) {
    using Score = std::tuple<double, double, uint64_t>;
    using Entry = std::pair<Score, int32_t>;
    std::vector<std::vector<int32_t>> around = around_;
    std::vector<int32_t> stamp(states_.size(), -1);
    int32_t marks = 0;
    const auto at = [](auto& array, int32_t v) -> auto& { return array[static_cast<size_t>(v)]; };
    const auto table = [&](int32_t v) {
        double size = at(states_, v);
        for (const int32_t u : at(around, v)) size *= at(states_, u);
        return size;
    };
    const auto score = [&](int32_t v) {
        const auto& mine = at(around, v);
        ++marks;
        for (const int32_t u : mine) at(stamp, u) = marks;
        int64_t missing = 0;
        for (const int32_t u : mine) {
            int64_t joined = 0;
            for (const int32_t w : at(around, u)) joined += at(stamp, w) == marks;
            missing += static_cast<int64_t>(mine.size()) - 1 - joined;
            steps_ += static_cast<double>(at(around, u).size());
        }
        const double fill = static_cast<double>(missing / 2), size = table(v);
        const uint64_t tie = at_random ? random() : 0;
        return fill_first ? Score{fill, size, tie} : Score{size, fill, tie};
    };
    std::vector<Score> current(states_.size());
    std::vector<char> gone(states_.size(), 0);
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap;
    for (int32_t v = 0; v < n_; ++v) {
        at(current, v) = score(v);
        heap.emplace(at(current, v), v);
    }
    Order order;
    std::vector<int32_t> touched;
    std::vector<char> is_touched(states_.size(), 0);
    while (!heap.empty()) {
        const auto [value, v] = heap.top();
        heap.pop();
        if (at(gone, v) || value != at(current, v)) continue;
        at(gone, v) = 1;
        order.push_back(v);
        if (table(v) > limit_) break;  // this order is of no use; the rest of it does not matter
        const std::vector<int32_t> mine = std::move(at(around, v));
        touched.clear();
        const auto touch = [&](int32_t u) {
            if (!at(is_touched, u)) touched.push_back(u);
            at(is_touched, u) = 1;
        };
        for (const int32_t u : mine) {
            auto& others = at(around, u);
            ++marks;
            for (const int32_t w : others) at(stamp, w) = marks;
            others.erase(std::find(others.begin(), others.end(), v));
            bool grew = false;
            for (const int32_t w : mine)
                if (w != u && at(stamp, w) != marks) {
                    others.push_back(w);
                    grew = true;
                }
            steps_ += static_cast<double>(others.size() + mine.size());
            touch(u);
            if (grew)
                for (const int32_t w : others) touch(w);
        }
        for (const int32_t u : touched) {
            at(is_touched, u) = 0;
            const Score fresh = score(u);
            if (at_random ? std::get<0>(fresh) != std::get<0>(at(current, u)) ||
                                std::get<1>(fresh) != std::get<1>(at(current, u))
                          : fresh != at(current, u)) {
                at(current, u) = fresh;
                heap.emplace(fresh, u);
            }
        }
    }
    for (int32_t v = 0; v < n_; ++v)
        if (!at(gone, v)) order.push_back(v);
    return order;
}

// The tables of an order: the separator of a variable is its later neighbours and the separators of its children. Stops
// where the total passes `enough`.
OrderSearch::Cost OrderSearch::evaluate(const Order& order, double enough) {
    place_.resize(order.size());
    stamp_.assign(order.size(), -1);
    separator_.resize(order.size());
    eldest_child_.assign(order.size(), -1);
    next_child_.assign(order.size(), -1);
    for (int32_t k = 0; k < n_; ++k) place_[static_cast<size_t>(order[static_cast<size_t>(k)])] = k;
    Cost cost{0.0, 0.0};
    double steps = 0.0;
    for (int32_t k = 0; k < n_ && cost.total <= enough; ++k) {
        const int32_t v = order[static_cast<size_t>(k)];
        auto& mine = separator_[static_cast<size_t>(k)];
        mine.clear();
        double size = states_[static_cast<size_t>(v)];
        int32_t parent = n_;
        const auto add = [&](int32_t p) {
            if (p <= k || stamp_[static_cast<size_t>(p)] == k) return;
            stamp_[static_cast<size_t>(p)] = k;
            mine.push_back(p);
            size *= states_[static_cast<size_t>(order[static_cast<size_t>(p)])];
            parent = std::min(parent, p);
        };
        for (const int32_t u : around_[static_cast<size_t>(v)]) add(place_[static_cast<size_t>(u)]);
        for (int32_t child = eldest_child_[static_cast<size_t>(k)]; child >= 0;
             child = next_child_[static_cast<size_t>(child)]) {
            for (const int32_t p : separator_[static_cast<size_t>(child)]) add(p);
            steps += static_cast<double>(separator_[static_cast<size_t>(child)].size());
        }
        steps += 4.0 + static_cast<double>(around_[static_cast<size_t>(v)].size());
        if (parent < n_) {
            next_child_[static_cast<size_t>(k)] = eldest_child_[static_cast<size_t>(parent)];
            eldest_child_[static_cast<size_t>(parent)] = k;
        }
        cost.largest = std::max(cost.largest, size);
        cost.total += size;
    }
    steps_ += steps;
    return cost;
}

bool OrderSearch::better(const Cost& a, const Cost& b) const {
    const bool a_fits = a.largest <= limit_, b_fits = b.largest <= limit_;
    return a_fits != b_fits ? a_fits : a.total < b.total;
}

void OrderSearch::consider(Order order) {
    const Cost cost = evaluate(order, std::numeric_limits<double>::infinity());
    if (!tried_++ || better(cost, best_cost_)) {
        best_ = std::move(order);
        best_cost_ = cost;
    }
}

// Distances from one vertex to those of `inside`, all of which carry `mark`; −1 where there is no path.
std::vector<int32_t> OrderSearch::distances(const std::vector<int32_t>& inside, int32_t mark, int32_t from) {
    std::vector<int32_t> result(states_.size(), -1), queue{from};
    result[static_cast<size_t>(from)] = 0;
    for (size_t next = 0; next < queue.size(); ++next)
        for (const int32_t u : around_[static_cast<size_t>(queue[next])])
            if (part_of_[static_cast<size_t>(u)] == mark && result[static_cast<size_t>(u)] < 0) {
                result[static_cast<size_t>(u)] = result[static_cast<size_t>(queue[next])] + 1;
                queue.push_back(u);
            }
    steps_ += static_cast<double>(inside.size()) * 4.0;
    return result;
}

// Eliminate across the graph from `starts`: always the variable of the frontier that brings in the fewest new ones, the
// one that has waited longest first.
OrderSearch::Order OrderSearch::frontier_sweep(const std::vector<int32_t>& starts) {
    Order order;
    std::vector<char> state(states_.size(), 0);  // 1: in the frontier, 2: eliminated
    std::vector<int32_t> frontier;
    const auto enter = [&](int32_t v) {
        if (state[static_cast<size_t>(v)]) return;
        state[static_cast<size_t>(v)] = 1;
        frontier.push_back(v);
    };
    for (const int32_t start : starts) {
        enter(start);
        while (!frontier.empty()) {
            size_t chosen = 0;
            int64_t fewest = INT64_MAX;
            for (size_t i = 0; i < frontier.size() && fewest > 0; ++i) {
                int64_t brings = 0;
                for (const int32_t u : around_[static_cast<size_t>(frontier[i])])
                    brings += state[static_cast<size_t>(u)] == 0;
                steps_ += static_cast<double>(around_[static_cast<size_t>(frontier[i])].size());
                if (brings < fewest) {
                    fewest = brings;
                    chosen = i;
                }
            }
            const int32_t v = frontier[chosen];
            frontier.erase(frontier.begin() + static_cast<int64_t>(chosen));
            state[static_cast<size_t>(v)] = 2;
            order.push_back(v);
            for (const int32_t u : around_[static_cast<size_t>(v)]) enter(u);
        }
    }
    return order;
}

// Sweeps by the sum and the difference of the distances from two far vertices. On a grid the corners are such vertices,
// and the sum of the distances from two neighbouring corners orders it row by row.
void OrderSearch::sweeps() {
    Order natural(states_.size());
    for (int32_t v = 0; v < n_; ++v) natural[static_cast<size_t>(v)] = v;
    consider(natural);
    std::vector<std::vector<int32_t>> from(landmark_count, std::vector<int32_t>(states_.size(), 0));
    std::vector<std::vector<int32_t>> starts(landmark_count);
    std::vector<int32_t> component(states_.size(), -1);
    int32_t components = 0;
    for (int32_t v = 0; v < n_; ++v) {
        if (component[static_cast<size_t>(v)] >= 0) continue;
        const std::vector<int32_t> reached = distances(natural, 0, v);
        std::vector<int32_t> members;
        for (int32_t u = 0; u < n_; ++u)
            if (reached[static_cast<size_t>(u)] >= 0) {
                component[static_cast<size_t>(u)] = components;
                members.push_back(u);
            }
        ++components;
        const auto farthest = [&](const std::vector<int32_t>& distance) {
            return *std::max_element(members.begin(), members.end(), [&](int32_t a, int32_t b) {
                return distance[static_cast<size_t>(a)] < distance[static_cast<size_t>(b)];
            });
        };
        std::vector<int32_t> nearest = reached;
        for (size_t l = 0; l < landmark_count; ++l) {
            const int32_t landmark = farthest(nearest);
            const std::vector<int32_t> own = distances(members, 0, landmark);
            for (const int32_t u : members) {
                from[l][static_cast<size_t>(u)] = own[static_cast<size_t>(u)];
                nearest[static_cast<size_t>(u)] =
                    l ? std::min(nearest[static_cast<size_t>(u)], own[static_cast<size_t>(u)])
                      : own[static_cast<size_t>(u)];
            }
            starts[l].push_back(landmark);
        }
        if (components > 64) return;  // many small pieces: the greedy orders are good there
    }
    for (size_t a = 0; a < landmark_count; ++a) {
        consider(frontier_sweep(starts[a]));
        for (size_t b = 0; b < landmark_count; ++b) {
            if (a == b) continue;
            for (const int32_t sign : {1, -1}) {
                if (sign > 0 && b < a) continue;
                Order order = natural;
                std::stable_sort(order.begin(), order.end(), [&](int32_t u, int32_t v) {
                    const auto key = [&](int32_t w) {
                        const int32_t x = from[a][static_cast<size_t>(w)], y = from[b][static_cast<size_t>(w)];
                        return std::tuple<int32_t, int32_t, int32_t>(component[static_cast<size_t>(w)], x + sign * y,
                                                                     x);
                    };
                    return key(u) < key(v);
                });
                steps_ += 10.0 * n_;
                consider(std::move(order));
            }
        }
    }
}

// Nested dissection: the middle level of a breadth-first search separates a part in two, which come first.
void OrderSearch::dissect(std::vector<int32_t> part, Order& order) {
    while (!part.empty()) {
        const int32_t mark = ++parts_;
        for (const int32_t v : part) part_of_[static_cast<size_t>(v)] = mark;
        std::vector<int32_t> distance = distances(part, mark, part.front());
        const auto farthest = [&]() {
            int32_t result = part.front();
            for (const int32_t v : part)
                if (distance[static_cast<size_t>(v)] > distance[static_cast<size_t>(result)]) result = v;
            return result;
        };
        distance = distances(part, mark, farthest());
        std::vector<int32_t> reached, rest;
        for (const int32_t v : part) (distance[static_cast<size_t>(v)] < 0 ? rest : reached).push_back(v);
        int32_t depth = 0;
        for (const int32_t v : reached) depth = std::max(depth, distance[static_cast<size_t>(v)]);
        if (reached.size() <= 2 || depth < 2) {
            order.insert(order.end(), reached.begin(), reached.end());
        } else {
            std::vector<int32_t> levels;
            for (const int32_t v : reached) levels.push_back(distance[static_cast<size_t>(v)]);
            std::nth_element(levels.begin(), levels.begin() + static_cast<int64_t>(levels.size() / 2), levels.end());
            const int32_t middle = std::clamp(levels[levels.size() / 2], 1, depth - 1);
            std::vector<int32_t> below, above, between;
            for (const int32_t v : reached) {
                const int32_t d = distance[static_cast<size_t>(v)];
                (d < middle ? below : d > middle ? above : between).push_back(v);
            }
            dissect(std::move(below), order);
            dissect(std::move(above), order);
            order.insert(order.end(), between.begin(), between.end());
        }
        part = std::move(rest);
    }
}

// Moves of single variables of the best order, kept where they do not make it worse.
void OrderSearch::improve(double until) {
    Order current = best_;
    Cost cost = best_cost_;
    const uint64_t n = static_cast<uint64_t>(n_);
    Order moved;
    while (steps_ < until) {
        moved = current;
        const int64_t from = static_cast<int64_t>(random() % n), to = static_cast<int64_t>(random() % n);
        if (from < to)
            std::rotate(moved.begin() + from, moved.begin() + from + 1, moved.begin() + to + 1);
        else
            std::rotate(moved.begin() + to, moved.begin() + from, moved.begin() + from + 1);
        const Cost found = evaluate(moved, cost.total);
        if (found.total > cost.total || better(cost, found)) continue;
        current.swap(moved);
        cost = found;
    }
    if (better(cost, best_cost_)) {
        best_ = std::move(current);
        best_cost_ = cost;
    }
}

void OrderSearch::run(double enough) {
    consider(greedy(true, false));
    consider(greedy(false, false));
    const auto satisfied = [&]() { return best_cost_.largest <= limit_ && best_cost_.total <= enough; };
    if (satisfied() || n_ < 3) return;
    steps_ = 0.0;
    const auto budget = [&]() {
        return best_cost_.largest > limit_ ? most_steps : std::min(most_steps, steps_for_each_entry * best_cost_.total);
    };
    sweeps();
    if (steps_ < budget()) {
        Order order, all(states_.size());
        for (int32_t v = 0; v < n_; ++v) all[static_cast<size_t>(v)] = v;
        dissect(std::move(all), order);
        consider(std::move(order));
    }
    for (int32_t i = 0; i < 2 * random_runs && steps_ < budget() / 2; ++i) consider(greedy(i % 2 == 0, true));
    if (n_ <= 4096) improve(budget());
}

void bind_elimination_order(nb::module_& module) {
    module.def(
        "elimination_order",
        [](In<int32_t> cardinality, In<int64_t> indptr, In<int32_t> neighbours, double limit, double enough,
           Out<int32_t> order) {
            const Checks checks("elimination_order");
            const size_t n = cardinality.shape(0);
            checks.length("indptr", indptr.shape(0), n + 1);
            checks.length("order", order.shape(0), n);
            checks.length("neighbours", neighbours.shape(0),
                          static_cast<size_t>(checks.pointers("indptr", indptr.data(), static_cast<int64_t>(n))));
            checks.within("neighbours names a variable that does not exist", neighbours.data(),
                          static_cast<int64_t>(neighbours.shape(0)), 0, static_cast<int64_t>(n));
            for (size_t v = 0; v < n; ++v)
                for (int64_t i = indptr.data()[v]; i < indptr.data()[v + 1]; ++i) {
                    const size_t u = static_cast<size_t>(neighbours.data()[i]);
                    const int32_t* first = neighbours.data() + indptr.data()[u];
                    const int32_t* last = neighbours.data() + indptr.data()[u + 1];
                    checks.require(u != v && (i == indptr.data()[v] || neighbours.data()[i - 1] < neighbours.data()[i]),
                                   "the neighbours of a variable must increase and leave it out");
                    checks.require(std::binary_search(first, last, static_cast<int32_t>(v)),
                                   "neighbours must be symmetric");
                }
            nb::gil_scoped_release release;
            OrderSearch search(cardinality.data(), indptr.data(), neighbours.data(), static_cast<int32_t>(n), limit);
            if (n == 0 || search.bound() > std::log2(limit) + 1e-9)
                return std::pair<int32_t, int32_t>(0, search.bound_width());
            search.run(enough);
            std::copy(search.best().begin(), search.best().end(), order.data());
            return std::pair<int32_t, int32_t>(search.tried(), search.bound_width());
        },
        nb::arg("cardinality"), nb::arg("indptr"), nb::arg("neighbours"), nb::kw_only(), nb::arg("limit"),
        nb::arg("enough"), nb::arg("order").noconvert(),
        "Fill `order` with the cheapest elimination order found; returns how many were tried and a lower bound on the "
        "width. None is tried, and `order` is left alone, where every order has a table of more than `limit` entries.");
}

}  // namespace ff
