#pragma once
#include <cstdint>

/// The door between lockstep and one MPI library. MPI has an API but no ABI, so module.cpp is
/// compiled once for each MPI library that is found, into a module of its own; the one that fits
/// the launcher is loaded when it is wanted, and lockstep itself links none. Plain numbers and
/// addresses cross the door: no tensors, no exceptions.
namespace lockstep::comm::mpi {

enum class Element : std::int32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat,
  kDouble
};

enum class Combine : std::int32_t { kSum, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor };

/// How many threads may be in MPI.
enum class Threads : std::int32_t { kOne, kTheFirstOnly, kOneAtATime, kAny };

/// MPI as `start` found or made it.
struct Started {
  int rank = 0;  ///< in MPI_COMM_WORLD, as is `size`
  int size = 1;
  Threads threads = Threads::kOne;
  bool ours = false;  ///< initialised by this call, not by the program
  bool over = false;  ///< the program has finalized it already
};

struct Members;   ///< ranks that communicate
struct Transfer;  ///< requests under way

/// What `progress` returns when a message has another size than its receiver expects.
inline constexpr int kWrongSize = -1;

/// The functions return 0 or MPI's error code unless they return nothing. Those that take a
/// Transfer start something and return at once; buffers are in use until `progress` says done.
/// All ranks of `Members` call the same ones in the same order, `send` and `receive` apart.
struct Module {
  static constexpr int kVersion = 1;
  int version;

  int (*start)(Started* started);
  int (*finish)();            ///< MPI_Finalize: waits for all ranks
  void (*abort)(int status);  ///< ends all ranks, with this exit status; does not return
  void (*explain)(int code, char* text, int size);

  /// The group of these ranks of MPI_COMM_WORLD, in this order. They alone take part; blocks until
  /// all of them do. `tag` tells apart groups that are made at the same time.
  int (*form)(const int* ranks, int count, int tag, Members** made);
  void (*dissolve)(Members* members);

  /// `largest`: how many elements or bytes one MPI call may carry; longer transfers are cut.
  Transfer* (*open)(std::int64_t largest);
  int (*progress)(Transfer* transfer, bool* done);
  /// Of a transfer that is done.
  void (*close)(Transfer* transfer);

  int (*all_reduce)(Members*, Transfer*, void* data, std::int64_t count, Element, Combine);
  int (*reduce)(Members*, Transfer*, void* data, std::int64_t count, Element, Combine, int root);
  /// `count` elements come out on each rank.
  int (*reduce_scatter)(Members*, Transfer*, const void* from, void* to, std::int64_t count,
                        Element, Combine);
  int (*broadcast)(Members*, Transfer*, void* data, std::int64_t bytes, int root);
  /// `bytes` go in on each rank.
  int (*all_gather)(Members*, Transfer*, const void* from, void* to, std::int64_t bytes);
  int (*barrier)(Members*, Transfer*);
  /// Messages between two ranks arrive in the order of the calls. `tag` is 0 to 32766.
  int (*send)(Members*, Transfer*, const void* data, std::int64_t bytes, int to, int tag);
  int (*receive)(Members*, Transfer*, void* data, std::int64_t bytes, int from, int tag);
};

/// The one symbol that a module exports.
inline constexpr const char* kDoorName = "lockstep_mpi_module";
using Door = const Module* (*)();

}  // namespace lockstep::comm::mpi
