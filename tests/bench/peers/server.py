"""The peers' side of the protocol in Server.h."""
import json
import sys
import time


def serve(engine, ready):
    """engine has prefill(tokens) -> logits of the last, start(contexts) and step(tokens), one of each sequence; all but start are
    timed."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    def timed(run):
        start = time.perf_counter()
        run()
        return {"seconds": time.perf_counter() - start}

    def run(request):
        match request["do"]:
            case "prefill":
                return timed(lambda: engine.prefill(request["tokens"]))
            case "logits":
                return {"logits": [float(x) for x in engine.prefill(request["tokens"])]}
            case "decode":
                engine.start(request["context"])
                return timed(lambda: [engine.step(tokens) for tokens in request["next"]])
        return {"error": f"unknown request '{request['do']}'"}

    answer({"ready": True, **ready})
    for line in sys.stdin:
        try:
            answer(run(json.loads(line)))
        except Exception as error:  # the benchmark reports it and goes on with the others
            answer({"error": f"{type(error).__name__}: {error}"})
