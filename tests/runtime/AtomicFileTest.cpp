#include "runtime/src/AtomicFile.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

Status writeText(AtomicFile &file, const std::string &text) {
  return file.write(std::as_bytes(std::span(text)));
}

} // namespace

TEST_CASE("An output file appears whole at commit") {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  Result<AtomicFile> file = AtomicFile::create(path);
  REQUIRE(file.ok());
  REQUIRE(writeText(*file, "new ").ok());
  REQUIRE(writeText(*file, "text").ok());
  CHECK(readFile(path) == "old");
  REQUIRE(file->commit().ok());
  CHECK(readFile(path) == "new text");
  CHECK(folder.count() == 1);
}

TEST_CASE("Without commit nothing is left behind") {
  TemporaryFolder folder;
  {
    Result<AtomicFile> file = AtomicFile::create(folder.path("out"));
    REQUIRE(file.ok());
    REQUIRE(writeText(*file, "half").ok());
  }
  CHECK(folder.count() == 0);
}

TEST_CASE("The target of a symbolic link is replaced, not the link") {
  TemporaryFolder folder;
  std::string target = folder.write("target", "old"), link = folder.path("link");
  std::filesystem::create_symlink("target", link);
  Result<AtomicFile> file = AtomicFile::create(link);
  REQUIRE(file.ok());
  REQUIRE(writeText(*file, "new").ok());
  REQUIRE(file->commit().ok());
  CHECK(std::filesystem::is_symlink(link));
  CHECK(readFile(target) == "new");
}

TEST_CASE("What cannot be written is an io error with the path") {
  TemporaryFolder folder;
  auto refusal = [](const std::string &path) {
    Result<AtomicFile> file = AtomicFile::create(path);
    REQUIRE(!file.ok());
    CHECK(file.status().code == SMELT_io);
    CHECK_THAT(file.status().message, Contains(path));
    return file.status().message;
  };
  CHECK_THAT(refusal(folder.path("none/out")), Contains("cannot be created: No such file or directory"));
  CHECK_THAT(refusal(folder.path("")), Contains("Is a directory"));
  CHECK_THAT(refusal(folder.path(std::string(300, 'x'))), Contains("File name too long"));
}

TEST_CASE("A device is written directly and a full one is reported") {
  Result<AtomicFile> file = AtomicFile::create("/dev/full");
  REQUIRE(file.ok());
  Status status = writeText(*file, "text");
  CHECK(status.code == SMELT_io);
  CHECK(status.message == "/dev/full: cannot be written: No space left on device");
  struct stat info;
  REQUIRE(stat("/dev/full", &info) == 0);
  CHECK(S_ISCHR(info.st_mode));
}

TEST_CASE("A disk that fills up in between leaves the old file") {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status status;
  {
    Result<AtomicFile> file = AtomicFile::create(path);
    REQUIRE(file.ok());
    status = writeText(*file, std::string(2000, 'x'));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(status.code == SMELT_io);
  CHECK_THAT(status.message, Contains("cannot be written: File too large"));
  CHECK(readFile(path) == "old");
  CHECK(folder.count() == 1);
}
