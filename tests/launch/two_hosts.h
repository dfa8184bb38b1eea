#pragma once
#include <string>
#include <vector>

namespace lockstep::test {

/// Two hosts, made of network namespaces that a cable joins; removed by the destructor. Needs root.
class TwoHosts {
 public:
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  /// Why there are none; empty when they are up.
  const std::string& missing() const { return missing_; }

  /// Host 0 or 1.
  static std::string address(int host);
  /// What to put before a command to run it on a host.
  std::vector<std::string> on(int host) const;
  /// Pulls the cable out: nothing arrives any more, nobody is told.
  void cut();

 private:
  std::string name(int host) const;
  std::string missing_;
};

}  // namespace lockstep::test
