#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::checkpoint {

/// The opcodes of pickle protocol 2 that torch.save writes and torch.load(weights_only=True) takes.
enum class PickleOp : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinUnicode = 'X',
  kShortBinString = 'U',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
};

/// One object of a pickle. Nodes refer to each other, and one may be referred to often, even by
/// itself: who walks over them bounds depth and number.
struct PickleNode {
  using Ref = const PickleNode*;
  struct List {
    std::vector<Ref> items;
  };
  struct Tuple {
    std::vector<Ref> items;
  };
  struct Dict {
    std::vector<std::pair<Ref, Ref>> items;
    bool ordered = false;  ///< a collections.OrderedDict
  };
  /// A name such as "torch.FloatStorage"; nothing is imported.
  struct Global {
    std::string name;
  };
  /// What would be `function(*arguments)`; nothing is called.
  struct Call {
    Ref function = nullptr;
    Ref arguments = nullptr;
  };
  /// An object that is kept outside of the pickle: a storage.
  struct Persistent {
    Ref id = nullptr;
  };

  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Tuple, Dict, Global,
               Call, Persistent>
      value;
};

/// Owns the nodes of one pickle.
struct Pickle {
  std::deque<PickleNode> nodes;
  PickleNode::Ref root = nullptr;
  std::size_t operations = 0;  ///< opcodes read: the measure of what its author paid for
};

/// Reads a pickle without executing anything. `allowed` says which globals may be named.
/// Throws CheckpointError with the byte's position: for an opcode outside PickleOp, another global,
/// an integer beyond 64 bits, or a stack that does not work out. Memory stays proportional to
/// `bytes`.
Pickle read_pickle(std::span<const std::byte> bytes,
                   const std::function<bool(std::string_view)>& allowed);

/// What a node is, in Python's words, for messages: "a dict", "torch.FloatStorage", ...
std::string describe(const PickleNode& node);

/// Writes a pickle, one operation a call, as Python's Unpickler expects them.
class PickleWriter {
 public:
  PickleWriter();

  void none() { op(PickleOp::kNone); }
  void boolean(bool value) { op(value ? PickleOp::kNewTrue : PickleOp::kNewFalse); }
  void integer(std::int64_t value);
  void real(double value);
  /// Throws CheckpointError when it is not UTF-8, which Python could not read.
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);

  void empty_list() { op(PickleOp::kEmptyList); }
  void empty_dict() { op(PickleOp::kEmptyDict); }
  void empty_tuple() { op(PickleOp::kEmptyTuple); }
  /// What follows, up to one of the three below, belongs together.
  void mark() { op(PickleOp::kMark); }
  void make_tuple() { op(PickleOp::kTuple); }
  void append_items() { op(PickleOp::kAppends); }
  void set_items() { op(PickleOp::kSetItems); }

  /// Calls the global below the tuple on top.
  void call() { op(PickleOp::kReduce); }
  /// Turns the tuple on top into the object it identifies.
  void persistent() { op(PickleOp::kBinPersId); }

  /// The whole pickle.
  std::string finish();

 private:
  void op(PickleOp code) { bytes_.push_back(static_cast<char>(code)); }
  void little_endian(std::uint64_t value, int bytes);

  std::string bytes_;
};

}  // namespace lockstep::checkpoint
