//===- SmeltOps.td - the tensor level of the smelt dialect ----------------------------------------------===//
//
// Constraint labels (C1, C2, ... of one op, U1..U5 of every use of a weight) are those of docs/dialect.md, of
// the verifiers in SmeltOps.cpp and of tests/dialect/IR/invalid. Constraints that the types below or traits
// state are checked by generated code and carry no label.
//
//===-----------------------------------------------------------------------------------------------------===//
#ifndef SMELT_OPS
#define SMELT_OPS

include "dialect/IR/SmeltAttrs.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===-----------------------------------------------------------------------------------------------------===//
// Types: one row per token, the number of tokens unknown until run time, all other sizes known.
//===-----------------------------------------------------------------------------------------------------===//

class Smelt_TokenTensor<string check, string description>
    : Type<CPred<"::mlir::smelt::" # check # "($_self)">, description, "::mlir::RankedTensorType">;

def Smelt_Tokens : Smelt_TokenTensor<"isTokens", "tensor<?xi32>">;
def Smelt_Activation : Smelt_TokenTensor<"isActivation", "tensor<?xNxf32>">;
def Smelt_ExpertRows : Smelt_TokenTensor<"isExpertRows", "tensor<?xkxNxf32>">;
def Smelt_ExpertIndices : Smelt_TokenTensor<"isExpertIndices", "tensor<?xkxi32>">;
def Smelt_Rows : AnyTypeOf<[Smelt_Activation, Smelt_ExpertRows]>;

def Smelt_WeightType : TypeAttrBase<"::mlir::RankedTensorType", "type tensor<Nxf32>, tensor<NxMxf32>, or of bf16 or i8",
                                    CPred<"::mlir::smelt::isWeightType($_self)">>;

// A 64-bit integer that is signed in C++, so that the verifiers see negative values as such.
def Smelt_Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

//===-----------------------------------------------------------------------------------------------------===//
// Structure
//===-----------------------------------------------------------------------------------------------------===//

class Smelt_Op<string mnemonic, list<Trait> traits = []> : Op<Smelt_Dialect, mnemonic, traits>;

// A function of its operands and of weights, which do not change during a run.
class Smelt_PureOp<string mnemonic, list<Trait> traits = []> : Smelt_Op<mnemonic, !listconcat([Pure], traits)>;

// Refers to weights; `verifySymbolUses` checks U1..U5.
class Smelt_WeightUser<string mnemonic, list<Trait> traits = []>
    : Smelt_PureOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)>;

def Smelt_ModelOp : Smelt_Op<"model", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "a model: weights and what is computed from them";
  let description = [{
    Holds `smelt.weight` declarations and one `smelt.forward`; after smelt-to-kernels, the kernels, buffers and
    step program that replace the forward. `spec` is the text of the TOML spec the model came from, `budgets` its
    exact budgets; both travel to the artifact. `device` names the kind of device the lowering is for, when it is
    not a CPU: "cuda".

    ```mlir
    smelt.model @tiny vocab_size(64) hidden_size(32) {
      smelt.weight @embedding : tensor<64x32xf32> from("model.embed_tokens.weight")
      smelt.forward { ... }
    }
    ```

    - (C1) vocab_size and hidden_size are positive.
    - (C2) holds only ops of the smelt dialect.
    - (C3) holds at most one `smelt.forward`.
    - (C4) no two weights name the same tensor.
    - (C5) device, when given, is "cuda".
    - (C6) kv_dtype, when given, is "bf16".
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Smelt_Int:$vocab_size, Smelt_Int:$hidden_size,
                       OptionalAttr<StrAttr>:$spec, OptionalAttr<DictionaryAttr>:$budgets,
                       OptionalAttr<StrAttr>:$device, OptionalAttr<StrAttr>:$kv_dtype);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `vocab_size` `(` $vocab_size `)` `hidden_size` `(` $hidden_size `)` attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  // An empty model; the body gets its block.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$vocabSize, "int64_t":$hiddenSize)>];
  let extraClassDeclaration = [{
    // The forward, or null once smelt-to-kernels has replaced it.
    ForwardOp getForward();
    // How its device keeps keys and values.
    KvLayout kvLayout();
  }];
}

def Smelt_WeightOp : Smelt_Op<"weight", [DeclareOpInterfaceMethods<Symbol, ["getVisibility", "isDeclaration"]>,
                                         HasParent<"ModelOp">]> {
  let summary = "a family of tensors in the weights file";
  let description = [{
    Declares tensors of one shape and element type, stored row-major with the output dimension first; i8 stands
    for 8-bit codes and the scales beside them (docs/quantization.md). There is one
    tensor, or one for each of the physical layers a..b-1 (`layers(a to b)`), or one for each expert of each
    layer. In `source`, the tensor's name in the file, `{layer}` and `{expert}` stand for the two numbers.

    `layout(panel16)`, which smelt-choose-layouts sets, says that kernels read the tensors packed into panels of
    16 rows (docs/artifact.md); the file has them row-major nevertheless.

    A weight is invisible from outside its model, so symbol-dce erases it when nothing uses it.

    ```mlir
    smelt.weight @s1.expert_up : tensor<96x1056xbf16> from("model.layers.{layer}.mlp.experts.{expert}.up_proj.weight")
      layers(3 to 9) experts(288)
    ```

    - (C1) without layers both bounds are 0; with layers 0 <= a < b <= 65536.
    - (C2) experts is not negative, and positive only with layers.
    - (C3) source holds `{layer}` exactly when there are layers, `{expert}` exactly when there are experts.
    - (C4) only matrices have a layout other than row_major.
    - (C5) only matrices are of i8.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Smelt_WeightType:$type, StrAttr:$source,
                       DefaultValuedAttr<Smelt_Int, "0">:$first_layer, DefaultValuedAttr<Smelt_Int, "0">:$end_layer,
                       DefaultValuedAttr<Smelt_Int, "0">:$experts,
                       DefaultValuedAttr<Smelt_WeightLayout, "::mlir::smelt::WeightLayout::row_major">:$layout);
  let assemblyFormat = [{
    $sym_name `:` $type `from` `(` $source `)` (`layers` `(` $first_layer `to` $end_layer^ `)`)?
    (`experts` `(` $experts^ `)`)? (`layout` `(` $layout^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isPerLayer() { return getEndLayer() > 0; }
    bool isPerExpert() { return getExperts() > 0; }
    // The name in the weights file of one tensor of the family.
    std::string tensorName(int64_t layer, int64_t expert);
  }];
}

def Smelt_ForwardOp : Smelt_Op<"forward", [HasParent<"ModelOp">, SingleBlock,
                                           DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "the logits of a sequence of tokens";
  let description = [{
    The body takes the ids of one sequence, whose positions count from 0, and returns one row of logits per
    token.

    ```mlir
    smelt.forward {
    ^bb0(%tokens: tensor<?xi32>):
      ...
      smelt.return %logits : tensor<?x64xf32>
    }
    ```

    - (C1) the body has one argument, of type tensor<?xi32>, and ends in `smelt.return`.
    - (C2) the returned rows have the model's vocab_size columns.
    - (C3) no two segments share a slot of the KV cache.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Value getTokens() { return getBody().getArgument(0); }
  }];
}

def Smelt_ReturnOp : Smelt_PureOp<"return", [HasParent<"ForwardOp">, Terminator]> {
  let summary = "ends a forward";
  let arguments = (ins Smelt_Activation:$logits);
  let assemblyFormat = "$logits attr-dict `:` type($logits)";
}

def Smelt_YieldOp : Smelt_PureOp<"yield", [ParentOneOf<["SegmentOp", "FusedOp"]>, Terminator]> {
  let summary = "ends the body of a segment or of a fused op";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Smelt_SegmentOp : Smelt_Op<"segment", [HasParent<"ForwardOp">, IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects,
                                           RecursivelySpeculatable, AllTypesMatch<["input", "result"]>,
                                           DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "layers, run several times";
  let description = [{
    The body is one layer; its argument is the residual stream before the layer, what it yields the one after
    it. It runs (b - a) * visits times, each run on what the run before yielded:

    - `order(block)`: for each visit, for each layer a..b-1
    - `order(layer)`: for each layer a..b-1, for each visit

    A weight with layers means, inside the body, its tensor of the current physical layer. The attention of the
    body writes and reads slot `kv_base + visit * (b - a) + (layer - a)` of the KV cache, in both orders.
    smelt-unroll-visits writes the visits out as segments of one visit each, with the same meaning.

    ```mlir
    %y = smelt.segment %x layers(3 to 9) visits(2) order(block) kv(per_visit) kv_base(3) : tensor<?x1056xf32> {
    ^bb0(%h: tensor<?x1056xf32>):
      ...
      smelt.yield %h2 : tensor<?x1056xf32>
    }
    ```

    - (C1) 0 <= a < b <= 65536.
    - (C2) visits is from 1 to 65536.
    - (C3) kv_base is from 0 to 2^31 - 1.
    - (C4) the body has one argument of the input's type, and ends in a `smelt.yield` of one value of that type.
    - (C5) the body holds at most one `smelt.attention`.
  }];
  let arguments = (ins Smelt_Activation:$input, Smelt_Int:$first_layer, Smelt_Int:$end_layer, Smelt_Int:$visits,
                       Smelt_VisitOrder:$order, Smelt_KvPolicy:$kv, Smelt_Int:$kv_base);
  let results = (outs Smelt_Activation:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $input `layers` `(` $first_layer `to` $end_layer `)` `visits` `(` $visits `)` `order` `(` $order `)`
    `kv` `(` $kv `)` `kv_base` `(` $kv_base `)` attr-dict `:` type($input) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    int64_t layerCount() { return getEndLayer() - getFirstLayer(); }
    int64_t executedLayers() { return layerCount() * getVisits(); }
    // The KV slot of one executed layer; layer is the physical layer.
    int64_t kvSlot(int64_t visit, int64_t layer) {
      return getKvBase() + visit * layerCount() + (layer - getFirstLayer());
    }
    YieldOp getYield();
  }];
}

def Smelt_FusedOp : Smelt_Op<"fused", [ParentOneOf<["ForwardOp", "SegmentOp"]>, IsolatedFromAbove, SingleBlock,
                                       RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "the ops of one kernel";
  let description = [{
    Computes what its body computes: the arguments of the body are the operands, the results what it yields.
    `role` names the kernel that will do it (docs/program.md). Arguments may be yielded unchanged: that is how
    a kernel which stores an operand for later ones passes it on.

    ```mlir
    %h = smelt.fused role("linear_residual")(%a, %x) : (tensor<?x64xf32>, tensor<?x32xf32>) -> tensor<?x32xf32> {
    ^bb0(%a_in: tensor<?x64xf32>, %x_in: tensor<?x32xf32>):
      %o = smelt.linear %a_in, @s0.o_proj : tensor<?x64xf32> -> tensor<?x32xf32>
      %sum = smelt.residual_add %x_in, %o scale(0.5) : tensor<?x32xf32>
      smelt.yield %sum : tensor<?x32xf32>
    }
    ```

    - (C1) the body's arguments have the operands' types, and it ends in a `smelt.yield` of the results' types.
    - (C2) the body holds only ops of the smelt dialect without regions.
  }];
  let arguments = (ins StrAttr:$role, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `role` `(` $role `)` `` `(` $inputs `)` `:` functional-type($inputs, $results) attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    YieldOp getYield();
    // Moves ops, given in program order and all in one block, into a new fused op placed where the last of them
    // was. Operands are the values the ops take from outside, in order of first use; results the values that
    // are used outside, in program order.
    static FusedOp outline(::mlir::RewriterBase &rewriter, ::llvm::StringRef role,
                           ::llvm::ArrayRef<::mlir::Operation *> ops);
  }];
}

//===-----------------------------------------------------------------------------------------------------===//
// Computation
//===-----------------------------------------------------------------------------------------------------===//

def Smelt_EmbedOp : Smelt_WeightUser<"embed"> {
  let summary = "rows of the embedding table";
  let description = [{
    `result[t] = weight[tokens[t]]`. A token id outside the table is an error at run time.

    - (C1) the rows have the model's hidden_size.
    - (C2) the weight has a row for each id below the model's vocab_size.
  }];
  let arguments = (ins Smelt_Tokens:$tokens, FlatSymbolRefAttr:$weight);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$tokens `,` $weight attr-dict `:` type($tokens) `->` type($result)";
  let hasVerifier = 1;
}

def Smelt_RmsNormOp : Smelt_WeightUser<"rms_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "root-mean-square normalisation";
  let description = [{
    `result = input * weight / sqrt(mean(input^2) + eps)` over each row; with `heads(h)` over each of the h equal
    parts of a row, all with the same weight.

    - (C1) eps is positive and finite.
    - (C2) heads is positive and divides the width.
  }];
  let arguments = (ins Smelt_Activation:$input, FlatSymbolRefAttr:$weight, F32Attr:$eps, OptionalAttr<Smelt_Int>:$heads);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = [{
    $input `,` $weight `eps` `(` $eps `)` (`heads` `(` $heads^ `)`)? attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    // The number of columns normalised together; the weight's length.
    int64_t groupWidth();
  }];
}

def Smelt_LinearOp : Smelt_WeightUser<"linear"> {
  let summary = "projection by a weight matrix";
  let description = [{
    `result[t][o] = sum_i input[t][i] * weight[o][i]`, plus `bias[o]` when there is one.
  }];
  let arguments = (ins Smelt_Activation:$input, FlatSymbolRefAttr:$weight, OptionalAttr<FlatSymbolRefAttr>:$bias);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `)`)? attr-dict `:` type($input) `->` type($result)
  }];
}

def Smelt_RopeOp : Smelt_PureOp<"rope", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rotary position embedding";
  let description = [{
    Splits each row into `heads` vectors of d columns and rotates column i against column i + d/2 by the angle
    `position * theta^(-2i/d)`, for i in [0, d/2): the half-split form. The position of row t is t.

    - (C1) heads is positive and divides the width into vectors of even size.
    - (C2) theta is positive and finite.
  }];
  let arguments = (ins Smelt_Activation:$input, Smelt_Int:$heads, F64Attr:$theta);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$input `heads` `(` $heads `)` `theta` `(` $theta `)` attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Smelt_AttentionOp : Smelt_PureOp<"attention", [AllTypesMatch<["query", "result"]>, AllTypesMatch<["key", "value"]>]> {
  let summary = "causal grouped-query attention";
  let description = [{
    Query head h of row t attends to rows 0..t of key and value head h / (query_heads / kv_heads), with weights
    `softmax(q . k / sqrt(head_dim))`.

    In a run the rows of key and value stay in the KV cache, in the slot the enclosing segment assigns, so that
    later tokens see them. The op is pure all the same: the slot belongs to this op alone and holds exactly the
    rows of key and value computed so far, so the result is a function of the operands over the whole sequence.
    Ops with equal operands may be merged and unused ones erased.

    - (C1) query_heads, kv_heads and head_dim are positive and kv_heads divides query_heads.
    - (C2) the query has query_heads * head_dim columns, key and value kv_heads * head_dim.
    - (C3) is inside a `smelt.segment`.
  }];
  let arguments = (ins Smelt_Activation:$query, Smelt_Activation:$key, Smelt_Activation:$value, Smelt_Int:$query_heads,
                       Smelt_Int:$kv_heads, Smelt_Int:$head_dim);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `query_heads` `(` $query_heads `)` `kv_heads` `(` $kv_heads `)`
    `head_dim` `(` $head_dim `)` attr-dict `:` type($query) `,` type($key)
  }];
  let hasVerifier = 1;
}

def Smelt_RouteOp : Smelt_PureOp<"route"> {
  let summary = "chooses experts";
  let description = [{
    For each row the `top_k` experts with the highest logits, by descending logit, ties to the lower index, and
    their weights. `router(softmax)`: the expert's share in the softmax over all experts; `router(sigmoid)`:
    `1 / (1 + exp(-logit))`. With `renormalize` the chosen weights are divided by their sum.

    ```mlir
    %indices, %weights = smelt.route %logits top_k(8) router(softmax) renormalize
        : tensor<?x288xf32> -> tensor<?x8xi32>, tensor<?x8xf32>
    ```

    - (C1) top_k is between 1 and the number of experts.
    - (C2) indices and weights have top_k columns.
  }];
  let arguments = (ins Smelt_Activation:$logits, Smelt_Int:$top_k, Smelt_RouterKind:$router, UnitAttr:$renormalize);
  let results = (outs Smelt_ExpertIndices:$indices, Smelt_Activation:$weights);
  let assemblyFormat = [{
    $logits `top_k` `(` $top_k `)` `router` `(` $router `)` (`renormalize` $renormalize^)? attr-dict `:`
    type($logits) `->` type($indices) `,` type($weights)
  }];
  let hasVerifier = 1;
}

def Smelt_ExpertLinearOp : Smelt_WeightUser<"expert_linear"> {
  let summary = "projection by the chosen experts' matrices";
  let description = [{
    `result[t][j][o] = sum_i input[t][i] * weight[indices[t][j]][o][i]`, or with `input[t][j][i]` when the input has
    a row for each chosen expert.

    - (C1) a three-dimensional input has as many rows a token as there are indices, and so has the result.
  }];
  let arguments = (ins Smelt_Rows:$input, Smelt_ExpertIndices:$indices, FlatSymbolRefAttr:$weight);
  let results = (outs Smelt_ExpertRows:$result);
  let assemblyFormat = [{
    $input `,` $indices `,` $weight attr-dict `:` type($input) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Smelt_SwigluOp : Smelt_PureOp<"swiglu", [AllTypesMatch<["gate", "up", "result"]>]> {
  let summary = "gated activation";
  let description = "`result = gate / (1 + exp(-gate)) * up`, element by element.";
  let arguments = (ins Smelt_Rows:$gate, Smelt_Rows:$up);
  let results = (outs Smelt_Rows:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate)";
}

def Smelt_CombineOp : Smelt_PureOp<"combine"> {
  let summary = "weighted sum of the experts' rows";
  let description = [{
    `result[t][n] = sum_j weights[t][j] * rows[t][j][n]`.

    - (C1) there is a weight for each row of a token, and the result has the rows' width.
  }];
  let arguments = (ins Smelt_ExpertRows:$rows, Smelt_Activation:$weights);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$rows `,` $weights attr-dict `:` type($rows) `,` type($weights) `->` type($result)";
  let hasVerifier = 1;
}

def Smelt_ResidualAddOp : Smelt_PureOp<"residual_add", [AllTypesMatch<["input", "update", "result"]>]> {
  let summary = "scaled residual write";
  let description = [{
    `result = input + scale * update`. The scale is the number the compiled code multiplies by, so it is an f32.

    - (C1) scale is finite.
  }];
  let arguments = (ins Smelt_Activation:$input, Smelt_Activation:$update, F32Attr:$scale);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$input `,` $update `scale` `(` $scale `)` attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Smelt_AddOp : Smelt_PureOp<"add", [Commutative, AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let summary = "sum, element by element";
  let description = "`result = lhs + rhs`: routed plus shared experts.";
  let arguments = (ins Smelt_Activation:$lhs, Smelt_Activation:$rhs);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Smelt_LmHeadOp : Smelt_WeightUser<"lm_head"> {
  let summary = "logits over the vocabulary";
  let description = [{
    `result[t][v] = sum_i input[t][i] * weight[v][i]`. A projection of its own because a run computes it only for the
    rows whose logits are wanted.
  }];
  let arguments = (ins Smelt_Activation:$input, FlatSymbolRefAttr:$weight);
  let results = (outs Smelt_Activation:$result);
  let assemblyFormat = "$input `,` $weight attr-dict `:` type($input) `->` type($result)";
}

#endif // SMELT_OPS
