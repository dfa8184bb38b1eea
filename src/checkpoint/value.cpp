#include <algorithm>

#include "base/concat.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;

const char* kind(const Value::Data& data) {
  constexpr const char* kKinds[] = {"None",     "a bool", "an int",  "a float", "a str",
                                    "a tensor", "a list", "a tuple", "a dict"};
  return kKinds[data.index()];
}

template <class T>
const T& expect(const Value::Data& data, const char* wanted) {
  const T* const value = std::get_if<T>(&data);
  if (value == nullptr) {
    throw CheckpointError(concat("a checkpoint's entry is ", kind(data), ", not ", wanted));
  }
  return *value;
}

std::string key_text(const Value::Key& key) {
  const auto* const name = std::get_if<std::string>(&key);
  return name != nullptr ? concat("'", *name, "'") : concat(std::get<std::int64_t>(key));
}

const Value* find_key(const Value::Dict& dict, const Value::Key& key) {
  const auto found = std::ranges::find(dict.items, key, &std::pair<Value::Key, Value>::first);
  return found == dict.items.end() ? nullptr : &found->second;
}

const Value& at_key(const Value& value, const Value::Key& key) {
  const auto& dict = value.dict();
  if (const Value* const found = find_key(dict, key)) return *found;
  std::string keys;
  for (const auto& [present, ignored] : dict.items)
    keys += concat(keys.empty() ? "" : ", ", key_text(present));
  throw CheckpointError(concat("a checkpoint's dict has no ", key_text(key), "; it has ",
                               keys.empty() ? "nothing" : keys));
}

}  // namespace

Value::Dict::Dict(std::initializer_list<std::pair<Key, Value>> entries) : items(entries) {}

Value::Value(const StateDict& value) {
  Dict dict;
  dict.ordered = true;
  dict.items.reserve(value.size());
  for (const auto& item : value) dict.items.emplace_back(item.key(), item.value());
  data_ = std::move(dict);
}

bool Value::boolean() const { return expect<bool>(data_, "a bool"); }
std::int64_t Value::integer() const { return expect<std::int64_t>(data_, "an int"); }
const std::string& Value::text() const { return expect<std::string>(data_, "a str"); }
const at::Tensor& Value::tensor() const { return expect<at::Tensor>(data_, "a tensor"); }
const Value::Dict& Value::dict() const { return expect<Dict>(data_, "a dict"); }

double Value::real() const {
  if (const auto* const integer = std::get_if<std::int64_t>(&data_))
    return static_cast<double>(*integer);
  return expect<double>(data_, "a float");
}

const std::vector<Value>& Value::items() const {
  if (const auto* const tuple = std::get_if<Tuple>(&data_)) return tuple->items;
  return expect<List>(data_, "a list or tuple");
}

StateDict Value::state_dict() const {
  StateDict state;
  for (const auto& [key, value] : dict().items) {
    const auto* const name = std::get_if<std::string>(&key);
    const auto* const tensor = std::get_if<at::Tensor>(&value.data_);
    if (name == nullptr || tensor == nullptr) {
      throw CheckpointError(
          concat("not a state_dict: its entry ", key_text(key), " is ", kind(value.data_),
                 ", not a tensor by name"),
          "load_value() reads any checkpoint; its at(\"...\") leads to the state_dict inside");
    }
    state.insert(*name, *tensor);
  }
  return state;
}

const Value& Value::at(std::string_view key) const { return at_key(*this, std::string(key)); }
const Value& Value::at(std::int64_t key) const { return at_key(*this, key); }
const Value* Value::find(std::string_view key) const { return find_key(dict(), std::string(key)); }

}  // namespace lockstep
