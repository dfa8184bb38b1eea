#include "comm/backends/mpi/early_exit.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/concat.h"
#include "base/env.h"
#include "base/shared_library.h"
#include "base/socket.h"

namespace lockstep::comm::mpi {
namespace {

std::atomic<bool> up{false};

bool program_has_mpi() {
  using Initialized = int (*)(int* flag);
  const auto ask = reinterpret_cast<Initialized>(base::loaded_symbol("MPI_Initialized"));
  int flag = 0;
  return ask != nullptr && (ask(&flag) != 0 || flag != 0);
}

/// The connection that mpiexec left open for PMI, the protocol between it and MPI_Init; -1 without.
int pmi_connection() {
  const char* rank = std::getenv("PMI_RANK");
  const char* text = std::getenv("PMI_FD");
  if (rank == nullptr || text == nullptr) return -1;
  const int fd = static_cast<int>(base::parse_number(text).value_or(-1));
  // A process started by a rank may have the variables without the connection.
  std::error_code failed;
  return std::filesystem::is_socket(base::concat("/proc/self/fd/", fd), failed) ? fd : -1;
}

void tell(int status, void* connection) {
  if (status == 0 || up || program_has_mpi()) return;
  const std::string words = base::concat("cmd=abort exitcode=", status, "\n");
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(connection));
  // If nobody hears it, nothing is lost that was not lost before.
  ::send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// When the program is loaded: nobody has called anything of ours yet, and the descriptor is still
/// what mpiexec made it.
[[maybe_unused]] const bool kListening = [] {
  const std::intptr_t fd = pmi_connection();
  return fd >= 0 && ::on_exit(tell, reinterpret_cast<void*>(fd)) == 0;
}();

}  // namespace

void mpi_is_up() noexcept { up = true; }

}  // namespace lockstep::comm::mpi
