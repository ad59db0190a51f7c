"""Other engines that run the same models: what the benchmark needs to know to start them. The engines themselves are scripts that run
in a virtual environment of their own (install.sh)."""
import dataclasses
import pathlib
import subprocess

from engines import Engine
from shapes import ROOT, Unsupported

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp with a GGUF of the same weights, executed layers unrolled: it cannot loop. i8 is its Q8_0."""

    arguments: tuple = ()
    package: str = "llama.cpp"
    environment: tuple = ()

    def weight_bytes(self, shape, dtype):
        return shape.weight_bytes(dtype, unrolled=True)

    def gguf(self, files, name, dtype):
        return files.folder / f"{name}-{dtype}.gguf"

    def prepare(self, files, name, dtype, shape):
        path = self.gguf(files, name, dtype)
        if not path.exists():
            source = files.make_weights(name, "bf16" if dtype == "i8" else dtype, ROOT / shape.spec)
            subprocess.run([files.python, HERE / "write_gguf.py", shape.spec, source, path, dtype], check=True)

    def command(self, files, name, dtype, shape):
        return [HERE / "llama_engine.py", self.gguf(files, name, dtype), *self.arguments]


@dataclasses.dataclass(frozen=True)
class Torch:
    """PyTorch on the CPU with transformers' own modules, the loop's layers shared between visits."""

    arguments: tuple = ()
    package: str = "torch"
    environment: tuple = (("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false"))

    def weight_bytes(self, shape, dtype):
        return shape.weight_bytes(dtype)

    def prepare(self, files, name, dtype, shape):
        pass

    def command(self, files, name, dtype, shape):
        if dtype == "i8":
            raise Unsupported("PyTorch has no counterpart of int8 weights with a scale for each 32 of them")
        return [HERE / "torch_engine.py", shape.spec, files.weights(name, dtype), dtype, *self.arguments]


PEERS = {
    "llama.cpp": LlamaCpp(),
    "llama.cpp-no-fa": LlamaCpp(arguments=("--no-flash-attention",)),
    "torch": Torch(),
    "torch-compile": Torch(arguments=("--compile",)),
}


def start_peer(peer_name, files, name, dtype, shape, threads, log):
    peer = PEERS[peer_name]
    command = [files.python, *peer.command(files, name, dtype, shape), "--threads", threads]
    return Engine(peer_name, command, log, dict(peer.environment))
