#include "comm/store.h"

#include "base/deadline.h"

namespace lockstep::comm {
namespace {

std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

c10::intrusive_ptr<c10d::Store> Store::clone() {
  return c10::make_intrusive<Store>(client_, timeout_);
}

void Store::set(const std::string& key, const std::vector<uint8_t>& value) {
  client_->set(key, text(value));
}

std::vector<uint8_t> Store::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                       const std::vector<uint8_t>& desired) {
  return bytes(client_->compare_set(key, text(expected), text(desired)));
}

std::vector<uint8_t> Store::get(const std::string& key) {
  return bytes(client_->get(key, base::Deadline::in(timeout_)));
}

int64_t Store::add(const std::string& key, int64_t value) { return client_->add(key, value); }

bool Store::deleteKey(const std::string& key) { return client_->erase(key); }

bool Store::check(const std::vector<std::string>& keys) { return client_->has(keys); }

int64_t Store::getNumKeys() { return client_->count_keys(); }

void Store::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void Store::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  client_->wait(keys, base::Deadline::in(timeout));
}

void Store::append(const std::string& key, const std::vector<uint8_t>& value) {
  client_->append(key, text(value));
}

std::vector<std::vector<uint8_t>> Store::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values;
  values.reserve(keys.size());
  for (const auto& key : keys) values.push_back(get(key));
  return values;
}

void Store::multiSet(const std::vector<std::string>& keys,
                     const std::vector<std::vector<uint8_t>>& values) {
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
}

}  // namespace lockstep::comm
