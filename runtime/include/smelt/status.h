/* The one table of outcomes: the runtime's status codes, the exit codes of smeltc and smelt-run, and
 * docs/errors.md (a test compares the two). Standalone C. */
#ifndef SMELT_STATUS_H
#define SMELT_STATUS_H

/* X(name, code, text) */
#define SMELT_STATUS_TABLE(X)                                                                                 \
  X(ok, 0, "success")                                                                                         \
  X(internal, 1, "a bug in smeltc; please report it with the command and its input")                          \
  X(usage, 2, "the command line is wrong")                                                                    \
  X(spec, 3, "the spec is invalid")                                                                           \
  X(io, 4, "a file cannot be read or written")                                                                \
  X(artifact, 5, "the artifact is damaged or of another version")                                             \
  X(weights, 6, "the weights do not fit the model")                                                           \
  X(input, 7, "the tokens or sampling options are invalid")                                                   \
  X(unsupported, 8, "this machine or target cannot do what was asked")                                        \
  X(memory, 9, "there is not enough memory")                                                                  \
  X(infeasible, 10, "no configuration meets the request")                                                     \
  X(interrupted, 130, "stopped by a signal")

typedef enum smelt_status {
#define SMELT_STATUS_ENUM(name, code, text) SMELT_##name = code,
  SMELT_STATUS_TABLE(SMELT_STATUS_ENUM)
#undef SMELT_STATUS_ENUM
} smelt_status;

#endif /* SMELT_STATUS_H */
