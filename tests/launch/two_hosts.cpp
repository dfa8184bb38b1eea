#include "launch/two_hosts.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/concat.h"

namespace lockstep::test {
namespace {

using base::concat;

constexpr const char* kIp = "/usr/sbin/ip";

bool run(const std::string& arguments) {
  return std::system(concat(kIp, " ", arguments, " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TwoHosts::TwoHosts() {
  if (::geteuid() != 0) missing_ = "needs root, to make network namespaces";
  if (!std::filesystem::exists(kIp)) missing_ = "needs the ip command (iproute2)";
  if (!missing_.empty()) return;
  const std::string cable = concat("ls", ::getpid());
  bool up = true;
  for (const int host : {0, 1}) up = up && run(concat("netns add ", name(host)));
  up = up && run(concat("link add ", cable, "a netns ", name(0), " type veth peer name ", cable,
                        "b netns ", name(1)));
  for (const int host : {0, 1}) {
    const std::string end = cable + (host == 0 ? "a" : "b");
    const std::string inside = concat("-n ", name(host), " ");
    up = up && run(inside + "link set lo up") &&
         run(concat(inside, "addr add ", address(host), "/24 dev ", end)) &&
         run(concat(inside, "link set ", end, " up"));
  }
  if (!up) missing_ = "this machine lets nobody make network namespaces and cables between them";
}

TwoHosts::~TwoHosts() {
  for (const int host : {0, 1}) run(concat("netns del ", name(host)));
}

std::string TwoHosts::address(int host) { return concat("10.77.0.", host + 1); }

std::vector<std::string> TwoHosts::on(int host) const { return {kIp, "netns", "exec", name(host)}; }

void TwoHosts::cut() { run(concat("-n ", name(1), " link set ls", ::getpid(), "b down")); }

std::string TwoHosts::name(int host) const {
  return concat("lockstep-test-", ::getpid(), "-", host);
}

}  // namespace lockstep::test
