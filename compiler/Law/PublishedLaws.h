// The laws that come with smeltc: coefficients as published, with the ranges of the runs behind them.
#pragma once

#include "compiler/Law/ScalingLaw.h"

#include <span>
#include <string_view>

namespace smelt::law {

// "baseline", "smelt", "hoffmann" and "epoch", in this order.
std::span<const ScalingLaw> publishedLaws();

// Null when there is no law of that name.
const ScalingLaw *findPublishedLaw(std::string_view name);

// The pair fitted to the same study: sparse models without a loop, and with the middle half visited twice.
const ScalingLaw &baselineLaw();
const ScalingLaw &loopedLaw();

} // namespace smelt::law
