"""llama_engine.py MODEL.gguf --threads N [--no-flash-attention]: llama.cpp through llama-cpp-python's C bindings."""
import argparse
import ctypes

import llama_cpp as api
import numpy
from server import serve

CACHE_POSITIONS = 4096
SEQUENCES = 64


class Llama:
    """Everything at llama.cpp's defaults but for the number of threads and what batched decoding needs."""

    def __init__(self, path, threads, flash_attention):
        api.llama_backend_init()
        model_options = api.llama_model_default_params()
        model_options.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(path.encode(), model_options)
        if not self.model:
            raise SystemExit(f"{path} cannot be loaded")
        options = api.llama_context_default_params()
        options.n_ctx = CACHE_POSITIONS
        options.n_batch = 2048
        options.n_ubatch = 512
        options.n_seq_max = SEQUENCES
        options.kv_unified = True
        options.n_threads = options.n_threads_batch = threads
        options.no_perf = True
        if not flash_attention:
            options.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = api.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit(f"no context for {path}")
        self.vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.memory = api.llama_get_memory(self.context)
        self.batch = api.llama_batch_init(CACHE_POSITIONS, 0, 1)
        view = lambda pointer: numpy.ctypeslib.as_array(pointer, (CACHE_POSITIONS,))
        self.tokens, self.positions, self.wanted = view(self.batch.token), view(self.batch.pos), view(self.batch.logits)
        view(self.batch.n_seq_id)[:] = 1
        self.sequences = numpy.zeros(CACHE_POSITIONS, numpy.int32)  # one array, so that filling a batch costs next to nothing
        for i in range(CACHE_POSITIONS):
            self.batch.seq_id[i] = ctypes.cast(self.sequences.ctypes.data + 4 * i, ctypes.POINTER(ctypes.c_int32))
        self.lengths = numpy.zeros(0, numpy.int32)

    def run(self, tokens, positions, sequences, wanted):
        """Logits are computed where `wanted`; returns those of the last token."""
        count = len(tokens)
        self.batch.n_tokens = count
        self.tokens[:count], self.positions[:count] = tokens, positions
        self.sequences[:count], self.wanted[:count] = sequences, wanted
        if status := api.llama_decode(self.context, self.batch):
            raise RuntimeError(f"llama_decode returned {status}")
        pointer = api.llama_get_logits_ith(self.context, -1)  # waits for the result
        return numpy.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.vocab,))

    def prompt(self, tokens, sequence):
        count = numpy.arange(len(tokens))
        return self.run(tokens, count, sequence, count == len(tokens) - 1)

    def prefill(self, tokens):
        api.llama_memory_clear(self.memory, False)
        return self.prompt(tokens, 0)

    def start(self, contexts):
        api.llama_memory_clear(self.memory, False)
        for sequence, tokens in enumerate(contexts):
            self.prompt(tokens, sequence)
        self.lengths = numpy.array([len(tokens) for tokens in contexts], numpy.int32)

    def step(self, tokens):
        self.run(tokens, self.lengths, numpy.arange(len(tokens)), True)
        self.lengths += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--no-flash-attention", action="store_true")
    arguments = parser.parse_args()
    engine = Llama(arguments.model, arguments.threads, not arguments.no_flash_attention)
    serve(engine, {"version": f"llama-cpp-python {api.__version__}"})


if __name__ == "__main__":
    main()
