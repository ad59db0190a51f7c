#include "compiler/Budget/Context.h"

#include <catch2/catch.hpp>

using smelt::budget::Attended;
using smelt::budget::Context;
using smelt::budget::Mean;
using smelt::budget::Reach;

namespace {

double value(Mean mean) { return static_cast<double>(mean.total) / static_cast<double>(mean.queries); }

// One by one: how many positions each query of a document sees.
int64_t counted(int64_t length, Reach reach, int64_t size) {
  int64_t sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    sum += reach == Reach::full ? i + 1 : reach == Reach::sliding ? std::min(i + 1, size) : i % size + 1;
  }
  return sum;
}

} // namespace

TEST_CASE("means are those of counting queries one by one") {
  for (int64_t length : {1, 2, 7, 16, 33}) {
    for (int64_t size : {1, 3, 8, 16, 50}) {
      for (Reach reach : {Reach::full, Reach::sliding, Reach::chunked}) {
        const Mean mean = Context::causal(length).mean(reach, size);
        CHECK(mean.total == counted(length, reach, size));
        CHECK(mean.queries == length);
        const Mean packed = Context::packed({length, 5}).mean(reach, size);
        CHECK(packed.total == counted(length, reach, size) + counted(5, reach, size));
        CHECK(packed.queries == length + 5);
      }
      CHECK(Context::window(length, size).mean(Reach::full, 0).total ==
            counted(length, Reach::sliding, size));
    }
  }
}

TEST_CASE("a window's mean has no jump where it covers the sequence") {
  CHECK(value(Context::causal(2048).mean(Reach::sliding, 512)) == 448.125);
  CHECK(value(Context::causal(2048).mean(Reach::sliding, 2048)) == 1024.5);
  CHECK(value(Context::causal(2048).mean(Reach::full, 0)) == 1024.5);
}

TEST_CASE("full contexts and explicit means are capped by windows") {
  CHECK(value(Context::full(4096).mean(Reach::full, 0)) == 4096);
  CHECK(value(Context::full(4096).mean(Reach::sliding, 128)) == 128);
  CHECK(value(Context(*Attended::parse("392.5")).mean(Reach::full, 0)) == 392.5);
  CHECK(value(Context(*Attended::parse("392.5")).mean(Reach::sliding, 392)) == 392);
  CHECK(value(Context(*Attended::parse("391.5")).mean(Reach::chunked, 392)) == 391.5);
}

TEST_CASE("contexts are read from text and print as it") {
  for (const char *text :
       {"mean:392.5", "full:4096", "causal:4096", "window:4096:512", "packed:1000,3096", "causal:1"}) {
    CAPTURE(text);
    REQUIRE(Context::parse(text));
    CHECK(Context::parse(text)->text() == text);
  }
  for (const char *bad : {"", "4096", "causal", "causal:", "causal:0", "causal:-1", "causal:1x",
                          "window:4096", "window:4096:", "packed:", "packed:1,", "packed:0", "mean:0",
                          "full:4294967296", "packed:2147483648,1", "all:3"}) {
    CAPTURE(bad);
    CHECK_FALSE(Context::parse(bad));
  }
}
