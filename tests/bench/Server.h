// Measures on request: one JSON object a line on standard input, one answer a line on standard output. run.py
// starts one such process for every engine, this one and those in peers/, and lets them take turns.
#pragma once

#include "tests/bench/Model.h"

namespace smelt::bench {

// Loads the model, answers {"ready": ...}, then requests until the input ends:
//
//   {"do": "prefill", "tokens": [..]}          -> {"seconds"}
//   {"do": "decode", "context": [[..], ..], "next": [[..], ..]}
//                                              -> {"seconds"}; context[s] is cached first, outside the time,
//                                              then
//                                                 step i feeds next[i][s] to every sequence s
//   {"do": "logits", "tokens": [..]}           -> {"logits"} after the last token
//
// With "count": true the answer also has {"distinct", "routed_layers", "kernels"} and its time is not one to
// compare. A failure is answered with {"error"}. Returns the exit status.
int serveModel(const ModelRequest &request);

// Answers each line with {"placement", "nanoseconds"}.
int servePlacement();

} // namespace smelt::bench
