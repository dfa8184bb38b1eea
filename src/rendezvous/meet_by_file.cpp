#include "rendezvous/meet_by_file.h"

#include "base/concat.h"
#include "base/host.h"
#include "rendezvous/failure.h"
#include "rendezvous/notice.h"

namespace lockstep::rendezvous {
namespace fs = std::filesystem;
namespace {

using base::concat;
using base::Deadline;

constexpr std::string_view kScheme = "file://";
// Network file systems tell nobody what another host wrote, and a watch on a local one (inotify)
// takes up to 20 ms to close: so look again, at last this often.
constexpr std::chrono::milliseconds kLookAgain{50};

// The order of destruction matters: the file goes before the store that it tells of.
struct Advertised {
  Server server;
  Publication publication;

  Advertised(const fs::path& path, const Member& host, const std::string& secret)
      : server(Endpoint::tcp("::", 0), with_token(host, secret)),
        publication(path, notice(server, host, secret)) {}

  static Member with_token(Member host, const std::string& secret) {
    if (!secret.empty()) host.token = secret;
    return host;
  }

  static Notice notice(const Server& server, Member host, const std::string& secret) {
    host.token = secret;
    const bool ipv6 = server.local_addresses().size() > 1;
    return notice_here(host, server.instance(), server.endpoint().port, ipv6);
  }
};

Failure nobody(const fs::path& path, const std::optional<Notice>& stale,
               const std::optional<Failure>& last) {
  Failure failure{
      .happened = concat("no rank 0 appeared in ", path.string()),
      .remedy = "see whether rank 0 runs, and whether that folder is shared by all hosts"};
  if (!stale) return failure;
  failure.happened += concat("; what is there is of job '", stale->owner.job_id, "', served by ",
                             stale->owner.text(), ", which does not answer");
  if (last) failure.happened += concat(": ", last->happened);
  return failure;
}

}  // namespace

fs::path rendezvous_path(const std::string& init_method) {
  const fs::path path(init_method.substr(kScheme.size()));
  const char* form = "write file:///PATH, with three slashes, as in file:///shared/job-7";
  if (!path.is_absolute() || !path.has_filename())
    throw UsageError(concat("'", init_method, "' gives no absolute path of a file"), form);
  std::error_code error;
  if (!fs::is_directory(path.parent_path(), error)) {
    throw UsageError(concat("'", init_method, "' is in the folder ", path.parent_path(),
                            ", which does not exist"),
                     "make it first: a folder that all hosts share");
  }
  if (fs::is_directory(path, error))
    throw UsageError(concat("'", init_method, "' is a folder"), form);
  return path;
}

AdvertisedServer serve_by_file(const fs::path& path, const Member& host) {
  // Without a secret of the job's own: who can read the file belongs to it, who can only reach the
  // port does not.
  const std::string secret = host.token.empty() ? base::random_hex(16) : "";
  const auto advertised = std::make_shared<Advertised>(path, host, secret);
  return {std::shared_ptr<Server>(advertised, &advertised->server),
          secret.empty() ? host.token : secret};
}

Admission dial_by_file(const fs::path& path, Member self, Deadline deadline) {
  Backoff backoff(kLookAgain);
  std::optional<Notice> stale;
  std::optional<Failure> last;
  do {
    const Finding finding = read_notice(path, self);
    if (finding.notice) {
      Member introduced = self;
      if (introduced.token.empty()) introduced.token = finding.notice->owner.token;
      Dialer dialer(introduced, path.string());
      dialer.expect(finding.notice->instance);
      if (auto admission = dialer.attempt(finding.notice->addresses_from_here(), deadline))
        return std::move(*admission);
      stale = finding.notice;
      last = dialer.blamed();
    }
  } while (backoff.pause(deadline));
  Failure failure = nobody(path, stale, last);
  failure.happened += concat(" (within ", seconds(deadline.limit()), ")");
  raise(failure, self, "rendezvous");
}

}  // namespace lockstep::rendezvous
