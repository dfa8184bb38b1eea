#include <bit>
#include <unordered_map>

#include "base/concat.h"
#include "checkpoint/byte_cursor.h"
#include "checkpoint/pickle.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;
using Ref = PickleNode::Ref;

constexpr int kProtocol = 2;
constexpr const char* kOrderedDict = "collections.OrderedDict";

// The stack machine that a pickle is a program for, reduced to making nodes.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::function<bool(std::string_view)>& allowed)
      : cursor_(bytes, "the pickle"), allowed_(allowed) {}

  Pickle run() {
    for (;;) {
      at_ = cursor_.position();
      const auto code = static_cast<PickleOp>(cursor_.little_endian<std::uint8_t>());
      ++pickle_.operations;
      if (code == PickleOp::kStop) break;
      if (!step_scalar(code) && !step_container(code) && !step_object(code)) unknown(code);
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& remedy = "") const {
    throw CheckpointError(concat("byte ", at_, " of its pickle: ", what), remedy);
  }

  [[noreturn]] void unknown(PickleOp code) const {
    fail(concat("opcode ", static_cast<int>(code), " is none that torch.save writes by default"),
         "in Python, save tensors, numbers, texts and containers of them, with the default "
         "pickle_protocol");
  }

  bool step_scalar(PickleOp code) {
    switch (code) {
      case PickleOp::kProto:
        return check_protocol(), true;
      case PickleOp::kNone:
        return push(std::monostate()), true;
      case PickleOp::kNewTrue:
        return push(true), true;
      case PickleOp::kNewFalse:
        return push(false), true;
      case PickleOp::kBinInt:
        return push(
                   std::int64_t{static_cast<std::int32_t>(cursor_.little_endian<std::uint32_t>())}),
               true;
      case PickleOp::kBinInt1:
        return push(std::int64_t{cursor_.little_endian<std::uint8_t>()}), true;
      case PickleOp::kBinInt2:
        return push(std::int64_t{cursor_.little_endian<std::uint16_t>()}), true;
      case PickleOp::kLong1:
        return push(long_integer()), true;
      case PickleOp::kBinFloat:
        return push(real()), true;
      case PickleOp::kBinUnicode:
        return push(std::string(cursor_.text(cursor_.little_endian<std::uint32_t>()))), true;
      case PickleOp::kShortBinString:
        return push(std::string(cursor_.text(cursor_.little_endian<std::uint8_t>()))), true;
      default:
        return false;
    }
  }

  bool step_container(PickleOp code) {
    switch (code) {
      case PickleOp::kMark:
        return marks_.push_back(stack_.size()), true;
      case PickleOp::kEmptyList:
        return push(PickleNode::List()), true;
      case PickleOp::kAppend:
        return extend(pop_many(1)), true;
      case PickleOp::kAppends:
        return extend(pop_marked()), true;
      case PickleOp::kEmptyTuple:
        return push(PickleNode::Tuple()), true;
      case PickleOp::kTuple:
        return push(PickleNode::Tuple{pop_marked()}), true;
      case PickleOp::kTuple1:
        return push(PickleNode::Tuple{pop_many(1)}), true;
      case PickleOp::kTuple2:
        return push(PickleNode::Tuple{pop_many(2)}), true;
      case PickleOp::kTuple3:
        return push(PickleNode::Tuple{pop_many(3)}), true;
      case PickleOp::kEmptyDict:
        return push(PickleNode::Dict()), true;
      case PickleOp::kSetItem:
        return set_items(pop_many(2)), true;
      case PickleOp::kSetItems:
        return set_items(pop_marked()), true;
      default:
        return false;
    }
  }

  bool step_object(PickleOp code) {
    switch (code) {
      case PickleOp::kGlobal:
        return global(), true;
      case PickleOp::kReduce:
        return reduce(), true;
      case PickleOp::kBuild:
        return build(), true;
      case PickleOp::kBinPersId:
        return push(PickleNode::Persistent{pop()}), true;
      case PickleOp::kBinPut:
        return put(cursor_.little_endian<std::uint8_t>()), true;
      case PickleOp::kLongBinPut:
        return put(cursor_.little_endian<std::uint32_t>()), true;
      case PickleOp::kBinGet:
        return get(cursor_.little_endian<std::uint8_t>()), true;
      case PickleOp::kLongBinGet:
        return get(cursor_.little_endian<std::uint32_t>()), true;
      default:
        return false;
    }
  }

  template <class T>
  void push(T&& value) {
    stack_.push_back(&pickle_.nodes.emplace_back(PickleNode{std::forward<T>(value)}));
  }

  // What lies below the last mark cannot be reached until the mark is gone.
  std::size_t reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickleNode* top() {
    if (reachable() == 0) fail("an operation lacks its operand");
    return stack_.back();
  }

  PickleNode* pop() {
    PickleNode* const node = top();
    stack_.pop_back();
    return node;
  }

  std::vector<Ref> pop_many(std::size_t count) {
    if (reachable() < count) fail("an operation lacks its operands");
    std::vector<Ref> nodes(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return nodes;
  }

  std::vector<Ref> pop_marked() {
    if (marks_.empty()) fail("a container ends that never began");
    auto nodes = pop_many(reachable());
    marks_.pop_back();
    return nodes;
  }

  void check_protocol() {
    const int protocol = cursor_.little_endian<std::uint8_t>();
    if (protocol == kProtocol) return;
    fail(concat("protocol ", protocol, " instead of ", kProtocol),
         "in Python, save with the default pickle_protocol");
  }

  std::int64_t long_integer() {
    const auto bytes = cursor_.take(cursor_.little_endian<std::uint8_t>());
    if (bytes.size() > sizeof(std::int64_t)) fail("an integer needs more than 64 bits");
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < bytes.size(); ++index) {
      value |= std::to_integer<std::uint64_t>(bytes[index]) << (8 * index);
    }
    const std::size_t missing = 64 - 8 * bytes.size();
    if (missing == 64) return 0;
    return static_cast<std::int64_t>(value << missing) >> missing;
  }

  double real() {
    std::uint64_t bits = 0;
    for (const std::byte byte : cursor_.take(sizeof(double)))
      bits = (bits << 8) | std::to_integer<std::uint64_t>(byte);
    return std::bit_cast<double>(bits);
  }

  void extend(const std::vector<Ref>& items) {
    auto* const list = std::get_if<PickleNode::List>(&top()->value);
    if (list == nullptr) fail(concat("items are appended to ", describe(*top())));
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<Ref>& items) {
    auto* const dict = std::get_if<PickleNode::Dict>(&top()->value);
    if (dict == nullptr) fail(concat("items are set in ", describe(*top())));
    if (items.size() % 2 != 0) fail("a key has no value");
    for (std::size_t index = 0; index < items.size(); index += 2) {
      dict->items.emplace_back(items[index], items[index + 1]);
    }
  }

  void global() {
    std::string name(cursor_.line());
    name += '.';
    name += cursor_.line();
    if (name != kOrderedDict && !allowed_(name)) {
      fail(concat("it names '", name, "', which is not on the list of what a checkpoint may hold"),
           "in Python, save tensors, numbers, texts and containers of them (a state_dict, not the "
           "module itself)");
    }
    push(PickleNode::Global{std::move(name)});
  }

  void reduce() {
    const Ref arguments = pop();
    const auto* const tuple = std::get_if<PickleNode::Tuple>(&arguments->value);
    const auto* const function = std::get_if<PickleNode::Global>(&top()->value);
    if (tuple == nullptr || function == nullptr)
      fail(concat(describe(*top()), " is called with ", describe(*arguments)));
    const Ref callee = pop();
    if (function->name == kOrderedDict) {
      if (!tuple->items.empty())
        fail("an OrderedDict is made in a way that torch.save does not use");
      return push(PickleNode::Dict{.items = {}, .ordered = true});
    }
    push(PickleNode::Call{callee, arguments});
  }

  // The attributes of an OrderedDict (a module's _metadata: versions of its parts) say nothing
  // about values.
  void build() {
    const Ref state = pop();
    const auto* const dict = std::get_if<PickleNode::Dict>(&top()->value);
    if (dict == nullptr || !dict->ordered ||
        !std::holds_alternative<PickleNode::Dict>(state->value)) {
      fail(concat(describe(*top()), " is given attributes"));
    }
  }

  void put(std::uint32_t index) { memo_[index] = top(); }

  void get(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(concat("it refers to object ", index, ", which does not exist"));
    stack_.push_back(found->second);
  }

  ByteCursor cursor_;
  const std::function<bool(std::string_view)>& allowed_;
  Pickle pickle_;
  std::vector<PickleNode*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleNode*> memo_;
  std::size_t at_ = 0;
};

struct Describe {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return concat("the number ", value); }
  std::string operator()(double value) const { return concat("the number ", value); }
  std::string operator()(const std::string& value) const {
    return concat("the text '", value.substr(0, 60), "'");
  }
  std::string operator()(const PickleNode::List&) const { return "a list"; }
  std::string operator()(const PickleNode::Tuple&) const { return "a tuple"; }
  std::string operator()(const PickleNode::Dict&) const { return "a dict"; }
  std::string operator()(const PickleNode::Global& value) const { return value.name; }
  std::string operator()(const PickleNode::Call& value) const {
    return concat("a result of ", describe(*value.function));
  }
  std::string operator()(const PickleNode::Persistent&) const { return "a storage"; }
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes,
                   const std::function<bool(std::string_view)>& allowed) {
  return Machine(bytes, allowed).run();
}

std::string describe(const PickleNode& node) { return std::visit(Describe(), node.value); }

}  // namespace lockstep::checkpoint
