"""Usage: watch_progress.py terminal|pipe COMMAND...: prints what a long command says on stderr, up to its progress line
or for 2.5 seconds, and stops it."""
import os
import pty
import select
import subprocess
import sys
import time

terminal = sys.argv[1] == "terminal"
ours, theirs = pty.openpty() if terminal else os.pipe()
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=theirs)
os.close(theirs)
said = b""
end = time.monotonic() + (60 if terminal else 2.5)
while time.monotonic() < end and b"searching" not in said:
    ready, _, _ = select.select([ours], [], [], 0.1)
    if ready:
        try:
            part = os.read(ours, 4096)
        except OSError:  # a terminal nobody writes to any more
            break
        if not part:
            break
        said += part
running = process.poll() is None
process.kill()
process.wait()
print("still searching" if running else "ended early")
print("stderr:", repr(said))
