//===- SmeltProgramAttrs.td - attributes of the program level -------------------------------------------===//
//
// The names and meanings are those of runtime/schema/manifest.fbs, which the artifact writer produces from
// these attributes one to one.
//
//===-----------------------------------------------------------------------------------------------------===//
#ifndef SMELT_PROGRAM_ATTRS
#define SMELT_PROGRAM_ATTRS

include "dialect/IR/SmeltAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/EnumAttr.td"

class Smelt_ProgramEnum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::smelt";
}

class Smelt_ProgramAttr<string name, string mnemonic_> : AttrDef<Smelt_Dialect, name> {
  let mnemonic = mnemonic_;
}

// A 64-bit integer that is signed in C++, so that the verifiers see negative values as such.
def Smelt_Count : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

def Smelt_BufferKind : Smelt_ProgramEnum<"BufferKind", "what a buffer is for and who fills it", [
    I32EnumAttrCase<"workspace", 0>, I32EnumAttrCase<"state", 1>, I32EnumAttrCase<"token_ids", 2>,
    I32EnumAttrCase<"positions", 3>, I32EnumAttrCase<"sequence_ids", 4>, I32EnumAttrCase<"logit_rows", 5>,
    I32EnumAttrCase<"logits", 6>, I32EnumAttrCase<"rope_table", 7>, I32EnumAttrCase<"draws", 8>,
    I32EnumAttrCase<"sampled", 9>]>;

def Smelt_DType : Smelt_ProgramEnum<"DType", "element type of a buffer or a weight", [
    I32EnumAttrCase<"f32", 0>, I32EnumAttrCase<"bf16", 1>, I32EnumAttrCase<"i32", 2>,
    I32EnumAttrCase<"i8", 3>]>;

def Smelt_BindingKind : Smelt_ProgramEnum<"BindingKind", "how a kernel argument gets its address", [
    I32EnumAttrCase<"buffer", 0>, I32EnumAttrCase<"state_slot", 1>, I32EnumAttrCase<"weight", 2>,
    I32EnumAttrCase<"weight_table", 3>]>;

def Smelt_ConstantKind : Smelt_ProgramEnum<"ConstantKind", "where a 32-bit kernel constant comes from", [
    I32EnumAttrCase<"immediate", 0>, I32EnumAttrCase<"token_count", 1>, I32EnumAttrCase<"logit_row_count", 2>,
    I32EnumAttrCase<"sequence_count", 3>, I32EnumAttrCase<"kv_capacity", 4>]>;

def Smelt_SizeAttr : Smelt_ProgramAttr<"Size", "size"> {
  let summary = "a number of bytes, affine in the sizes of a step";
  let description = [{
    `bytes + per_token * T + per_logit_row * R + per_position * C + per_kv_position * S * C` for a step of `T`
    tokens and `R` rows of logits, in a session of `S` sequences of capacity `C` positions each. Terms that are
    zero are not written.

    ```mlir
    size(bytes = 4, per_token = 128)
    ```
  }];
  let parameters = (ins "int64_t":$bytes, "int64_t":$perToken, "int64_t":$perLogitRow, "int64_t":$perPosition,
                        "int64_t":$perKvPosition);
  let hasCustomAssemblyFormat = 1;
}

def Smelt_RopeAttr : Smelt_ProgramAttr<"Rope", "rope_spec"> {
  let summary = "what a rope table holds";
  let description = [{
    The cosines, then the sines, of `position * theta^(-2i/dim)` for `i` in `[0, dim/2)`.
  }];
  let parameters = (ins "::mlir::FloatAttr":$theta, "int64_t":$dim);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Smelt_BindingAttr : Smelt_ProgramAttr<"Binding", "binding"> {
  let summary = "one memory argument of a kernel call";
  let description = [{
    `buffer` is a buffer's address, `state_slot` the slot of a state buffer that belongs to the current visit and
    layer, `weight` the current layer's tensor of a family, `weight_table` the array of the current layer's
    tensors, one per expert.
  }];
  let parameters = (ins EnumParameter<Smelt_BindingKind>:$kind, "::mlir::FlatSymbolRefAttr":$symbol);
  let assemblyFormat = "`<` $kind $symbol `>`";
}

def Smelt_ConstantAttr : Smelt_ProgramAttr<"Constant", "constant"> {
  let summary = "one 32-bit constant of a kernel call";
  let description = "An `immediate` carries its value (floats by their bits); the others are known at run time.";
  let parameters = (ins EnumParameter<Smelt_ConstantKind>:$kind, DefaultValuedParameter<"int32_t", "0">:$value);
  let assemblyFormat = "`<` $kind (`,` $value^)? `>`";
}

#endif // SMELT_PROGRAM_ATTRS
