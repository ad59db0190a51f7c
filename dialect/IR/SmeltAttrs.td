//===- SmeltAttrs.td - attributes of the tensor level ---------------------------------------------------===//
#ifndef SMELT_ATTRS
#define SMELT_ATTRS

include "dialect/IR/SmeltDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Smelt_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::smelt";
}

// block: for each visit, each layer. layer: for each layer, each visit.
def Smelt_VisitOrder : Smelt_Enum<"VisitOrder", "how the visits of a segment interleave with its layers",
                                  [I32EnumAttrCase<"block", 0>, I32EnumAttrCase<"layer", 1>]>;

// per_visit: every executed layer has a slot of its own.
def Smelt_KvPolicy : Smelt_Enum<"KvPolicy", "which executed layers share a slot of the KV cache",
                                [I32EnumAttrCase<"per_visit", 0>]>;

def Smelt_RouterKind : Smelt_Enum<"RouterKind", "how router logits become expert weights",
                                  [I32EnumAttrCase<"softmax", 0>, I32EnumAttrCase<"sigmoid", 1>]>;

// docs/artifact.md says where each element lies.
def Smelt_WeightLayout : Smelt_Enum<"WeightLayout", "how a weight lies in memory when kernels read it",
                                    [I32EnumAttrCase<"row_major", 0>, I32EnumAttrCase<"panel16", 1>]>;

#endif // SMELT_ATTRS
