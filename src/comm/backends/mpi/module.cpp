// Compiled once for each MPI library; nothing of lockstep is linked in.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "comm/backends/mpi/module.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

namespace lockstep::comm::mpi {

struct Members {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
};

struct Transfer {
  std::int64_t largest = 0;
  std::vector<MPI_Request> requests;
  std::vector<int> expected;  ///< by request: the bytes to be received; -1 for others
  std::vector<MPI_Status> statuses;
};

namespace {

MPI_Datatype datatype(Element element) {
  switch (element) {
    case Element::kUint8:
      return MPI_UINT8_T;
    case Element::kInt8:
      return MPI_INT8_T;
    case Element::kUint16:
      return MPI_UINT16_T;
    case Element::kInt16:
      return MPI_INT16_T;
    case Element::kUint32:
      return MPI_UINT32_T;
    case Element::kInt32:
      return MPI_INT32_T;
    case Element::kUint64:
      return MPI_UINT64_T;
    case Element::kInt64:
      return MPI_INT64_T;
    case Element::kFloat:
      return MPI_FLOAT;
    case Element::kDouble:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op operation(Combine combine) {
  switch (combine) {
    case Combine::kSum:
      return MPI_SUM;
    case Combine::kProduct:
      return MPI_PROD;
    case Combine::kMin:
      return MPI_MIN;
    case Combine::kMax:
      return MPI_MAX;
    case Combine::kBitAnd:
      return MPI_BAND;
    case Combine::kBitOr:
      return MPI_BOR;
    case Combine::kBitXor:
      return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

std::int64_t bytes_of(Element element) {
  int bytes = 0;
  MPI_Type_size(datatype(element), &bytes);
  return bytes;
}

template <class Pointer>
Pointer advance(Pointer data, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, const void*>, const char, char>;
  return static_cast<Byte*>(data) + bytes;
}

bool ended() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

/// Cuts a transfer into calls that an int can count: `start(done, part, request)`. One of nothing
/// is one call too, since somebody may wait for it.
template <class Start>
int in_parts(Transfer* transfer, std::int64_t count, bool receives, Start start) {
  std::int64_t done = 0;
  do {
    const int part = static_cast<int>(std::min(count - done, transfer->largest));
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int code = start(done, part, &request); code != MPI_SUCCESS) return code;
    transfer->requests.push_back(request);
    transfer->expected.push_back(receives ? part : -1);
    done += part;
  } while (done < count);
  return MPI_SUCCESS;
}

int start(Started* started) {
  int initialized = 0, provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  started->over = ended();
  if (started->over) return MPI_SUCCESS;
  if (initialized == 0) {
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
        code != MPI_SUCCESS)
      return code;
    started->ours = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  } else {
    MPI_Query_thread(&provided);
  }
  started->threads = provided == MPI_THREAD_MULTIPLE     ? Threads::kAny
                     : provided == MPI_THREAD_SERIALIZED ? Threads::kOneAtATime
                     : provided == MPI_THREAD_FUNNELED   ? Threads::kTheFirstOnly
                                                         : Threads::kOne;
  MPI_Comm_rank(MPI_COMM_WORLD, &started->rank);
  return MPI_Comm_size(MPI_COMM_WORLD, &started->size);
}

int finish() { return ended() ? MPI_SUCCESS : MPI_Finalize(); }

void abort(int status) {
  if (!ended()) MPI_Abort(MPI_COMM_WORLD, status);
}

void explain(int code, char* text, int size) {
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) words[0] = '\0';
  std::snprintf(text, static_cast<std::size_t>(size), "%s", words);
}

int form(const int* ranks, int count, int tag, Members** made) {
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int code = MPI_Group_incl(world, count, ranks, &group);
  Members members;
  if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &members.comm);
  if (code == MPI_SUCCESS) {
    MPI_Comm_set_errhandler(members.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(members.comm, &members.rank);
    MPI_Comm_size(members.comm, &members.size);
    *made = new Members(members);
  }
  if (group != MPI_GROUP_NULL) MPI_Group_free(&group);
  MPI_Group_free(&world);
  return code;
}

void dissolve(Members* members) {
  if (!ended()) MPI_Comm_free(&members->comm);
  delete members;
}

Transfer* open(std::int64_t largest) {
  auto* transfer = new Transfer;
  transfer->largest = largest;
  return transfer;
}

int progress(Transfer* transfer, bool* done) {
  std::vector<MPI_Status>& statuses = transfer->statuses;
  statuses.resize(transfer->requests.size());
  int all = 0;
  const int code = MPI_Testall(static_cast<int>(transfer->requests.size()),
                               transfer->requests.data(), &all, statuses.data());
  *done = code == MPI_SUCCESS && all != 0;
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
  if (code == MPI_SUCCESS && !*done) return MPI_SUCCESS;
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    int error = MPI_SUCCESS, received = 0;
    if (code == MPI_ERR_IN_STATUS) MPI_Error_class(statuses[i].MPI_ERROR, &error);
    if (error == MPI_ERR_TRUNCATE) return kWrongSize;
    if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) return statuses[i].MPI_ERROR;
    if (transfer->expected[i] < 0 || error == MPI_ERR_PENDING) continue;
    MPI_Get_count(&statuses[i], MPI_BYTE, &received);
    if (received != transfer->expected[i]) return kWrongSize;
  }
  return MPI_SUCCESS;
}

void close(Transfer* transfer) { delete transfer; }

int all_reduce(Members* members, Transfer* transfer, void* data, std::int64_t count,
               Element element, Combine combine) {
  const std::int64_t width = bytes_of(element);
  return in_parts(transfer, count, false, [&](std::int64_t done, int part, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, advance(data, done * width), part, datatype(element),
                          operation(combine), members->comm, request);
  });
}

int reduce(Members* members, Transfer* transfer, void* data, std::int64_t count, Element element,
           Combine combine, int root) {
  const std::int64_t width = bytes_of(element);
  const bool is_root = members->rank == root;
  return in_parts(transfer, count, false, [&](std::int64_t done, int part, MPI_Request* request) {
    void* here = advance(data, done * width);
    return MPI_Ireduce(is_root ? MPI_IN_PLACE : here, is_root ? here : nullptr, part,
                       datatype(element), operation(combine), root, members->comm, request);
  });
}

int reduce_scatter(Members* members, Transfer* transfer, const void* from, void* to,
                   std::int64_t count, Element element, Combine combine) {
  if (count * members->size <= transfer->largest)
    return in_parts(transfer, count, false, [&](std::int64_t, int part, MPI_Request* request) {
      return MPI_Ireduce_scatter_block(from, to, part, datatype(element), operation(combine),
                                       members->comm, request);
    });
  const std::int64_t width = bytes_of(element);
  for (int root = 0; root < members->size; ++root) {
    const int code =
        in_parts(transfer, count, false, [&](std::int64_t done, int part, MPI_Request* request) {
          return MPI_Ireduce(advance(from, (root * count + done) * width),
                             members->rank == root ? advance(to, done * width) : nullptr, part,
                             datatype(element), operation(combine), root, members->comm, request);
        });
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int broadcast(Members* members, Transfer* transfer, void* data, std::int64_t bytes, int root) {
  return in_parts(transfer, bytes, false, [&](std::int64_t done, int part, MPI_Request* request) {
    return MPI_Ibcast(advance(data, done), part, MPI_BYTE, root, members->comm, request);
  });
}

int send(Members* members, Transfer* transfer, const void* data, std::int64_t bytes, int to,
         int tag) {
  return in_parts(transfer, bytes, false, [&](std::int64_t done, int part, MPI_Request* request) {
    return MPI_Isend(advance(data, done), part, MPI_BYTE, to, tag, members->comm, request);
  });
}

int receive(Members* members, Transfer* transfer, void* data, std::int64_t bytes, int from,
            int tag) {
  return in_parts(transfer, bytes, true, [&](std::int64_t done, int part, MPI_Request* request) {
    return MPI_Irecv(advance(data, done), part, MPI_BYTE, from, tag, members->comm, request);
  });
}

int all_gather(Members* members, Transfer* transfer, const void* from, void* to,
               std::int64_t bytes) {
  if (bytes * members->size <= transfer->largest)
    return in_parts(transfer, bytes, false, [&](std::int64_t, int part, MPI_Request* request) {
      return MPI_Iallgather(from, part, MPI_BYTE, to, part, MPI_BYTE, members->comm, request);
    });
  // Each rank's part from its root.
  if (bytes > 0)
    std::memcpy(advance(to, members->rank * bytes), from, static_cast<std::size_t>(bytes));
  for (int root = 0; root < members->size; ++root)
    if (const int code = broadcast(members, transfer, advance(to, root * bytes), bytes, root);
        code != MPI_SUCCESS)
      return code;
  return MPI_SUCCESS;
}

int barrier(Members* members, Transfer* transfer) {
  return in_parts(transfer, 0, false, [&](std::int64_t, int, MPI_Request* request) {
    return MPI_Ibarrier(members->comm, request);
  });
}

}  // namespace

}  // namespace lockstep::comm::mpi

extern "C" __attribute__((visibility("default"))) const lockstep::comm::mpi::Module*
lockstep_mpi_module() {
  using namespace lockstep::comm::mpi;
  static constexpr Module kModule{
      Module::kVersion, start,     finish,     abort,   explain,    form,
      dissolve,         open,      progress,   close,   all_reduce, reduce,
      reduce_scatter,   broadcast, all_gather, barrier, send,       receive};
  return &kModule;
}
