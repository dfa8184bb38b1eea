#pragma once
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rendezvous/client.h"

namespace lockstep::comm {

/// The world's store in the form that c10d's backends take. Thread-safe: a blocked get delays no
/// other call. Throws what rendezvous::Client throws; a wait without its own limit uses the store's
/// timeout.
class Store : public c10d::Store {
 public:
  Store(std::shared_ptr<rendezvous::Client> client, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

  using c10d::Store::compareSet;
  using c10d::Store::set;

 private:
  std::shared_ptr<rendezvous::Client> client_;
};

}  // namespace lockstep::comm
