#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>

#include <map>

#include "base/concat.h"
#include "base/file.h"
#include "checkpoint/doors.h"
#include "checkpoint/dtypes.h"
#include "checkpoint/pickle.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;
using checkpoint::Dtype;
using checkpoint::PickleWriter;

// What one storage becomes: a record of `bytes` bytes.
struct StorageRecord {
  c10::Storage storage;
  std::size_t bytes = 0;
};

// Turns a value into a pickle and the storages it refers to. No file is touched before this has
// succeeded.
class Pickler {
 public:
  explicit Pickler(const Value& value) {
    add(value, "the checkpoint", 0);
    pickle_ = writer_.finish();
  }

  const std::string& pickle() const { return pickle_; }
  const std::vector<StorageRecord>& storages() const { return storages_; }

 private:
  // What the reader accepts; deeper is an object that contains itself, or no checkpoint.
  static constexpr int kDeepest = 64;

  void add(const Value& value, const std::string& where, int depth) {
    if (depth > kDeepest)
      throw CheckpointError(concat(where, " is nested deeper than ", kDeepest, " levels"));
    std::visit([&](const auto& data) { add_data(data, where, depth); }, value.data());
  }

  void add_data(std::monostate, const std::string&, int) { writer_.none(); }
  void add_data(bool value, const std::string&, int) { writer_.boolean(value); }
  void add_data(std::int64_t value, const std::string&, int) { writer_.integer(value); }
  void add_data(double value, const std::string&, int) { writer_.real(value); }
  void add_data(const std::string& value, const std::string&, int) { writer_.text(value); }

  void add_data(const Value::List& list, const std::string& where, int depth) {
    writer_.empty_list();
    writer_.mark();
    for (std::size_t index = 0; index < list.size(); ++index)
      add(list[index], concat(where, "[", index, "]"), depth + 1);
    writer_.append_items();
  }

  void add_data(const Value::Tuple& tuple, const std::string& where, int depth) {
    writer_.mark();
    for (std::size_t index = 0; index < tuple.items.size(); ++index) {
      add(tuple.items[index], concat(where, "[", index, "]"), depth + 1);
    }
    writer_.make_tuple();
  }

  void add_data(const Value::Dict& dict, const std::string& where, int depth) {
    if (dict.ordered) {
      ordered_dict();
    } else {
      writer_.empty_dict();
    }
    writer_.mark();
    for (const auto& [key, value] : dict.items) {
      if (const auto* const name = std::get_if<std::string>(&key)) {
        writer_.text(*name);
        add(value, concat(where, "['", *name, "']"), depth + 1);
      } else {
        writer_.integer(std::get<std::int64_t>(key));
        add(value, concat(where, "[", std::get<std::int64_t>(key), "]"), depth + 1);
      }
    }
    writer_.set_items();
  }

  // torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks); _v3
  // with the dtype.
  void add_data(const at::Tensor& tensor, const std::string& where, int) {
    const Dtype& dtype = check(tensor, where);
    const at::Tensor plain = tensor.resolve_conj().resolve_neg();
    writer_.global("torch._utils",
                   dtype.storage_class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    writer_.mark();
    add_storage(plain, dtype);
    writer_.integer(plain.storage_offset());
    add_integers(plain.sizes());
    add_integers(plain.strides());
    writer_.boolean(tensor.requires_grad());
    ordered_dict();
    if (dtype.storage_class == nullptr) writer_.global("torch", dtype.name);
    writer_.make_tuple();
    writer_.call();
  }

  static const Dtype& check(const at::Tensor& tensor, const std::string& where) {
    if (!tensor.defined())
      throw CheckpointError(concat(where, " is an undefined tensor"), "leave it out");
    const Dtype* const dtype = checkpoint::find_dtype(tensor.scalar_type());
    if (dtype == nullptr || tensor.layout() != c10::kStrided || !tensor.has_storage() ||
        tensor.is_meta()) {
      throw CheckpointError(concat(where, " is a tensor of type ", tensor.toString(),
                                   ", which has no place in a .pth here"),
                            "convert it to a dense tensor of a plain dtype first");
    }
    return *dtype;
  }

  // ("storage", class, key, device, elements): a storage seen under two dtypes is written once for
  // each.
  void add_storage(const at::Tensor& tensor, const Dtype& dtype) {
    const auto& storage = tensor.storage();
    const std::size_t element = dtype.storage_class ? tensor.element_size() : 1;
    const std::size_t elements = storage.nbytes() / element;
    const auto [known, is_new] =
        keys_.try_emplace({storage.unsafeGetStorageImpl(), dtype.type}, storages_.size());
    if (is_new) storages_.push_back({storage, elements * element});
    writer_.mark();
    writer_.text("storage");
    if (dtype.storage_class) {
      writer_.global("torch", dtype.storage_class);
    } else {
      writer_.global("torch.storage", "UntypedStorage");
    }
    writer_.text(std::to_string(known->second));
    writer_.text("cpu");
    writer_.integer(static_cast<std::int64_t>(elements));
    writer_.make_tuple();
    writer_.persistent();
  }

  void add_integers(at::IntArrayRef values) {
    writer_.mark();
    for (const auto value : values) writer_.integer(value);
    writer_.make_tuple();
  }

  void ordered_dict() {
    writer_.global("collections", "OrderedDict");
    writer_.empty_tuple();
    writer_.call();
  }

  PickleWriter writer_;
  std::string pickle_;
  std::vector<StorageRecord> storages_;
  std::map<std::pair<c10::StorageImpl*, at::ScalarType>, std::size_t> keys_;
};

// PyTorchStreamWriter cannot live with a failing write: its destructor finishes the file and
// throws. So this one never fails; it remembers the first error and drops what follows.
class Sink {
 public:
  explicit Sink(base::AtomicFile& file) : file_(file) {}

  std::size_t write(const void* data, std::size_t size) noexcept {
    try {
      if (!failure_) file_.write({static_cast<const std::byte*>(data), size});
    } catch (...) {
      failure_ = std::current_exception();
    }
    return size;
  }

  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  base::AtomicFile& file_;
  std::exception_ptr failure_;
};

at::Tensor on_cpu(const c10::Storage& storage) {
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte))
      .set_(storage, 0, {bytes}, {1})
      .cpu();
}

void write_archive(const Pickler& pickler, base::AtomicFile& file) {
  Sink sink(file);
  caffe2::serialize::PyTorchStreamWriter archive(
      [&sink](const void* data, std::size_t size) { return sink.write(data, size); });
  const auto record = [&](const std::string& name, const void* data, std::size_t size) {
    archive.writeRecord(name, data, size);
    sink.check();
  };
  const auto text_record = [&](const char* name, const std::string& text) {
    record(name, text.data(), text.size());
  };
  text_record("data.pkl", pickler.pickle());
  text_record(".format_version", "1");
  text_record(".storage_alignment", "64");
  text_record("byteorder", "little");
  for (std::size_t key = 0; key < pickler.storages().size(); ++key) {
    const auto& [storage, bytes] = pickler.storages()[key];
    const at::Tensor copy = storage.device().is_cpu() ? at::Tensor() : on_cpu(storage);
    record(concat("data/", key), copy.defined() ? copy.const_data_ptr() : storage.data(), bytes);
  }
  archive.writeEndOfFile();
  sink.check();
}

// Of the file, headers and alignment included, not less than it will be.
std::size_t bytes_needed(const Pickler& pickler) {
  constexpr std::size_t kPerRecord = 256;
  constexpr std::size_t kOtherRecords = 8;
  std::size_t bytes =
      pickler.pickle().size() + kPerRecord * (pickler.storages().size() + kOtherRecords);
  for (const auto& record : pickler.storages()) bytes += record.bytes;
  return bytes;
}

}  // namespace

void save(const Value& value, const std::filesystem::path& path) {
  std::size_t needed = 0;
  checkpoint::saving(path, needed, [&] {
    const Pickler pickler(value);
    needed = bytes_needed(pickler);
    base::AtomicFile file(path);
    write_archive(pickler, file);
    file.commit();
  });
}

}  // namespace lockstep
