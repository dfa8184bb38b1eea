#include "lockstep/ddp.h"

#include "ddp/reducer.h"

namespace lockstep::ddp {

Wrapper::Wrapper(std::shared_ptr<torch::nn::Module> module, Group group,
                 const DistributedDataParallelOptions& options)
    : reducer_(std::make_unique<Reducer>(std::move(module), std::move(group), options)) {}

Wrapper::~Wrapper() = default;
Wrapper::Wrapper(Wrapper&&) noexcept = default;
Wrapper& Wrapper::operator=(Wrapper&&) noexcept = default;

const Group& Wrapper::group() const { return reducer_->group(); }

void Wrapper::before_forward() { reducer_->before_forward(); }

NoSync::NoSync(Reducer& reducer) : reducer_(reducer) { reducer_.enter_no_sync(); }

NoSync::~NoSync() { reducer_.leave_no_sync(); }

}  // namespace lockstep::ddp
