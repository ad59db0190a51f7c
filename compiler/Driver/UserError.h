// What the user can put right. Everything else that goes wrong is a bug in smeltc and is reported as one.
#pragma once

#include "smelt/status.h"

#include <stdexcept>
#include <string>

namespace smelt::driver {

class UserError : public std::runtime_error {
public:
  // The message may have several lines; it names both sides of what does not fit, and the way out.
  UserError(smelt_status status, const std::string &message) : std::runtime_error(message), code(status) {}
  smelt_status status() const { return code; }

private:
  smelt_status code;
};

} // namespace smelt::driver
