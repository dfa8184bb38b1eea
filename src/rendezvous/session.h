#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "rendezvous/client.h"
#include "rendezvous/dial.h"
#include "rendezvous/failure.h"
#include "rendezvous/wire.h"

namespace lockstep::rendezvous {

/// The connection of a Client: calls go out from any thread, answers and news come in by one reader
/// thread.
class Client::Session : public std::enable_shared_from_this<Client::Session> {
 public:
  Session(Admission admission, Member self);

  void start();
  /// Says goodbye; the reader ends soon after.
  void leave() noexcept;
  /// Waits for the reader's end, unless it is the caller.
  void finish() noexcept;
  /// The last one who could wait goes: a reader that is the caller ends by itself.
  void abandon() noexcept;

  /// One call: sends `packer`'s frame, whose id is `id`, and waits for its answer.
  struct Call {
    std::uint64_t id = 0;
    std::string op;                        ///< for messages: "store get"
    std::function<Failure()> at_deadline;  ///< what to throw then; empty: the store does not answer
    bool give_up = false;                  ///< at the deadline, ask the server for the words
  };
  std::uint64_t next_id();
  /// The frame that answers it.
  std::string exchange(const Call& call, std::string frame, base::Deadline deadline);

  void on_departure(std::function<void(const Member&, Departure)> handler);

  base::Deadline reply_deadline() const;
  void set_reply_limit(std::chrono::milliseconds limit);

  const Member& self() const { return self_; }
  const Member& host() const { return admission_.host; }
  const std::string& local_address() const { return local_address_; }

 private:
  struct Pending {
    std::condition_variable answered;
    bool done = false;
    std::string answer;
    std::optional<Failure> failure;
  };
  struct Listening {
    std::function<void(const Member&, Departure)> handler;
    std::size_t told = 0;
  };
  struct Departed {
    Member member;
    Departure how;
  };

  bool on_reader() const;
  void run() noexcept;
  void read_until_quiet();
  void handle(std::string_view frame);
  void answer(std::uint64_t id, std::string frame, std::optional<Failure> failure);
  void note_departure(const Member& member, Departure how);
  void end_calls(const Failure& why);
  void connection_ended(bool on_purpose);
  void tell_listeners();
  void send_locked(std::string_view bytes);
  void check_usable_locked(const std::string& op) const;
  [[noreturn]] void raise_deadline(const Call& call, base::Deadline deadline) const;

  const Member self_;
  Admission admission_;  // the reader is the thread's own
  const std::string local_address_;
  base::EventFd wake_;

  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Pending*> pending_;
  std::string out_;  // what the socket did not take at once
  std::optional<Failure> over_;
  std::vector<Departed> departures_;
  std::vector<Listening> listeners_;
  std::chrono::milliseconds reply_limit_{60'000};
  bool leaving_ = false;
  bool connected_ = true;
  std::thread::id reader_;

  std::mutex finish_mutex_;
  std::thread thread_;
};

}  // namespace lockstep::rendezvous
