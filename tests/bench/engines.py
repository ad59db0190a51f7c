"""Programs that run a model on request: one process each, a JSON object a line both ways (see Server.h)."""
import json
import os
import pathlib
import subprocess


class EngineError(Exception):
    """An engine answered with an error or ended; the message is its own."""


class Engine:
    """A process that answers requests. Use as a context manager: leaving it ends the process."""

    def __init__(self, name, command, log, environment=None):
        self.name = name
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as stream:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def read(self):
        """The next answer. Lines that are no JSON object come from libraries and are passed over."""
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue
            answer = json.loads(line)
            if "error" in answer:
                raise EngineError(f"{self.name}: {answer['error']}")
            return answer
        self.process.wait()
        lines = self.log.read_text(errors="replace").strip().splitlines()
        raise EngineError(f"{self.name}: ended with status {self.process.returncode}: {' | '.join(lines[-3:])} (see {self.log})")

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says why
        return self.read()

    def cpu_seconds(self):
        """User and system time of the process so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """CPU time the whole machine has spent on anything but waiting."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
