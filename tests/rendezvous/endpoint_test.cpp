#include "rendezvous/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
using ::testing::HasSubstr;

TEST(EndpointTest, ReadsWhatItWrites) {
  EXPECT_EQ(Endpoint::parse("tcp://10.0.0.1:29500"), Endpoint::tcp("10.0.0.1", 29500));
  EXPECT_EQ(Endpoint::parse("tcp://[::1]:0"), Endpoint::tcp("::1", 0));
  EXPECT_EQ(Endpoint::parse("unix:/tmp/x"), Endpoint::unix_path("/tmp/x"));
  for (const char* text : {"tcp://[fe80::1]:65535", "tcp://node-7.cluster:1", "unix:relative/path"})
    EXPECT_EQ(Endpoint::parse(text).text(), text);
}

TEST(EndpointTest, RefusesTheMalformedWithTheTextAndTheRightForm) {
  for (const char* text :
       {"", "tcp://", "tcp://host", "tcp://host:", "tcp://:1", "tcp://host:x", "tcp://host:-1",
        "tcp://host:65536", "tcp://host:1:2", "tcp://::1:1", "tcp://[::1]", "tcp://[::1:5",
        "tcp://[]:5", "tcp:host:1", "http://host:1", "host:1", "unix:", "tcp://host:1/"}) {
    const std::string message = test::message_of<UsageError>([&] { Endpoint::parse(text); });
    EXPECT_THAT(message, HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(message, HasSubstr("tcp://HOST:PORT"));
  }
}

}  // namespace lockstep::rendezvous
