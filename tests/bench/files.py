"""The files of a run: compiled models, random weights, the peers' own formats and their environment. Made when missing, kept for
the next run."""
import pathlib
import subprocess

import shapes
from peers import PEERS


class Files:
    def __init__(self, arguments):
        self.folder = arguments.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.smeltc = arguments.build / "bin/smeltc"

    @property
    def python(self):
        """Of the peers' virtual environment."""
        return self.folder / "peers/bin/python"

    def install(self, peers):
        if peers:
            packages = sorted({PEERS[peer].package for peer in peers})
            subprocess.run([shapes.ROOT / "tests/bench/peers/install.sh", self.folder / "peers", *packages], check=True)

    def weights(self, name, dtype):
        return self.folder / f"{name}-{dtype}.safetensors"

    def artifact(self, name, dtype):
        return self.folder / f"{name}-{dtype}.smelt"

    def model(self, name, dtype):
        return self.artifact(name, dtype), self.weights(name, dtype)

    def prepare(self, name, dtype, shape, peers):
        """Compiles the model unless the last build's compiler already has; makes weights and the peers' files unless they are there."""
        spec = shapes.ROOT / shape.spec
        artifact = self.artifact(name, dtype)
        if not artifact.exists() or artifact.stat().st_mtime < self.smeltc.stat().st_mtime:
            self.run("compile", spec, "-o", artifact, "--weights-dtype", dtype)
        self.make_weights(name, dtype, spec)
        for peer in peers:
            PEERS[peer].prepare(self, name, dtype, shape)

    def make_weights(self, name, dtype, spec):
        path = self.weights(name, dtype)
        if path.exists():
            return path
        if dtype == "i8":
            self.run("weights", "quantize", self.make_weights(name, "bf16", spec), "-o", path)
        else:
            self.run("weights", "init", spec, "-o", path, "--seed", "1", "--dtype", dtype)
        return path

    def run(self, *command):
        subprocess.run([self.smeltc, *command], check=True, stdout=subprocess.DEVNULL)

    def delete(self, name, dtype):
        for path in self.folder.glob(f"{name}-{dtype}.*"):
            if path.suffix != ".log":
                path.unlink()
