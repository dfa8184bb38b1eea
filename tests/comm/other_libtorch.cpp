// Preloaded, it makes the loaded libtorch say that it is 2.0.
#include <cstdint>

extern "C" std::uint64_t aoti_torch_abi_version();

extern "C" std::uint64_t aoti_torch_abi_version() { return std::uint64_t{2} << 56; }
