//===- SmeltDialect.td - the smelt dialect --------------------------------------------------------------===//
#ifndef SMELT_DIALECT
#define SMELT_DIALECT

include "mlir/IR/DialectBase.td"

def Smelt_Dialect : Dialect {
  let name = "smelt";
  let cppNamespace = "::mlir::smelt";
  let summary = "looped mixture-of-experts transformers";
  let description = [{
    A decoder-only transformer whose repeated part is a region: a `smelt.segment` holds one layer and states
    which physical layers run it, how many times and in which order. Weights are symbols; their data never
    enters the IR. docs/dialect.md is the reference, with the numbered constraints the verifiers check.

    The dialect has two levels. At the tensor level (SmeltOps.td) a model is `smelt.weight` declarations and a
    `smelt.forward` over the tokens of one sequence; `smelt.fused` groups the ops of one kernel. At the program
    level (SmeltProgramOps.td) it is kernels, buffers and the step program.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
  private:
    void registerAttributes();
    void registerOps();
    void registerProgramOps(); // of SmeltProgramOps.td
  public:
  }];
}

#endif // SMELT_DIALECT
