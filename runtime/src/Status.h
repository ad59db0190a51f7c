// What a function of the runtime returns when it can fail: a status with its message, or a value.
#pragma once

#include "smelt/status.h"

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace smelt::runtime {

struct [[nodiscard]] Status {
  smelt_status code = SMELT_ok;
  std::string message;

  bool ok() const { return code == SMELT_ok; }
};

inline Status success() { return {}; }
inline Status fail(smelt_status code, std::string message) { return {code, std::move(message)}; }

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::move(value)) {}
  Result(Status status) : state(std::move(status)) { assert(!std::get<Status>(state).ok()); }

  bool ok() const { return std::holds_alternative<T>(state); }
  T &operator*() { return std::get<T>(state); }
  const T &operator*() const { return std::get<T>(state); }
  T *operator->() { return &std::get<T>(state); }
  const T *operator->() const { return &std::get<T>(state); }
  const Status &status() const { return std::get<Status>(state); }
  Status takeStatus() { return std::move(std::get<Status>(state)); }

private:
  std::variant<T, Status> state;
};

} // namespace smelt::runtime
