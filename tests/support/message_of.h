#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lockstep/error.h"

namespace lockstep::test {

/// What the error of this kind says that `action` throws; the test fails when it throws none.
template <class Kind = Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace lockstep::test
