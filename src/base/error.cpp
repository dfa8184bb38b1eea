#include "lockstep/error.h"

#include <iomanip>
#include <sstream>

namespace lockstep {
namespace {

std::string compose(const std::string& happened, const std::string& remedy,
                    const ErrorContext& context) {
  std::ostringstream text;
  if (context.rank) {
    text << "[rank " << *context.rank;
    if (context.world_size) text << '/' << *context.world_size;
    text << "] ";
  }
  if (!context.op.empty()) {
    text << context.op;
    if (context.sequence) text << " #" << *context.sequence;
    if (!context.backend.empty()) text << " on " << context.backend;
    text << ": ";
  }
  text << happened;
  if (context.elapsed)
    text << ", after " << std::setprecision(2) << context.elapsed->count() << " s";
  if (!remedy.empty()) text << "\n  remedy: " << remedy;
  if (!context.flight_record.empty()) text << "\n  flight record: " << context.flight_record;
  return std::move(text).str();
}

}  // namespace

Error::Error(const std::string& happened, const std::string& remedy, ErrorContext context)
    : std::runtime_error(compose(happened, remedy, context)),
      happened_(happened),
      remedy_(remedy),
      context_(std::move(context)) {}

}  // namespace lockstep
