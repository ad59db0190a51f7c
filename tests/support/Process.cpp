#include "tests/support/Process.h"

#include <cerrno>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace smelt::tests {
namespace {

struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) {
      throw std::runtime_error("pipe failed");
    }
    read_end = ends[0];
    write_end = ends[1];
  }
};

pid_t spawn(const std::vector<std::string> &arguments, const Pipe &out, const Pipe &err) {
  std::vector<char *> argv;
  for (const std::string &argument : arguments) {
    argv.push_back(const_cast<char *>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  for (const Pipe *pipe : {&out, &err}) {
    posix_spawn_file_actions_addclose(&actions, pipe->read_end);
    posix_spawn_file_actions_addclose(&actions, pipe->write_end);
  }
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out.write_end);
  close(err.write_end);
  if (error != 0) {
    throw std::runtime_error("cannot start " + arguments[0]);
  }
  return child;
}

} // namespace

ProcessResult runProcess(const std::vector<std::string> &arguments,
                         const std::function<void(pid_t, const ProcessResult &)> &watch) {
  const Pipe out, err;
  const pid_t child = spawn(arguments, out, err);
  ProcessResult result;
  pollfd polls[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
  std::string *sinks[] = {&result.out, &result.err};
  int open_count = 2;
  while (open_count > 0) {
    if (poll(polls, 2, watch ? 5 : -1) < 0 && errno != EINTR) {
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) {
        continue;
      }
      char buffer[4096];
      const ssize_t count = read(polls[i].fd, buffer, sizeof(buffer));
      if (count <= 0) {
        close(polls[i].fd);
        polls[i].fd = -1;
        --open_count;
        continue;
      }
      sinks[i]->append(buffer, count);
    }
    if (watch) {
      watch(child, result);
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  } else {
    result.signal = WTERMSIG(status);
  }
  return result;
}

} // namespace smelt::tests
