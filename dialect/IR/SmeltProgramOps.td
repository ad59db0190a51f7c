//===- SmeltProgramOps.td - kernels, buffers and the step program ---------------------------------------===//
//
// The last stage of the dialect: what smelt-to-kernels produces and what the artifact holds. Constraint
// labels (C1, C2, ...) are those of docs/program.md, the verifiers and the tests in tests/dialect/IR/program.
//
//===-----------------------------------------------------------------------------------------------------===//
#ifndef SMELT_PROGRAM_OPS
#define SMELT_PROGRAM_OPS

include "dialect/IR/SmeltProgramAttrs.td"
include "dialect/IR/SmeltAttrs.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

class Smelt_ProgramLevelOp<string mnemonic, list<Trait> traits = []> : Op<Smelt_Dialect, mnemonic, traits>;

def Smelt_KernelOp : Smelt_ProgramLevelOp<"kernel", [Symbol]> {
  let summary = "a kernel to compile";
  let description = [{
    One kernel: a role, which fixes its arguments, and the parameters that fix its shapes. The back end of each
    target turns it into code. A module holds one kernel per distinct (role, params), however many layers and
    visits call it. The roles are listed in docs/program.md.

    ```mlir
    smelt.kernel @linear_residual_i64_o32_f32 role("linear_residual") params({dtype = 0, in = 64, out = 32})
    ```

    - (C1) `role` is one of the roles of docs/program.md.
    - (C2) `params` has exactly the parameters of the role, each an integer of 64 bits in its range.
    - (C3) no other kernel of the model has the same role and params.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$role, DictionaryAttr:$params);
  let assemblyFormat = "$sym_name `role` `(` $role `)` `params` `(` $params `)` attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // The value of a parameter; the verifier has checked that the role has it.
    int64_t getParam(::llvm::StringRef name);
  }];
}

def Smelt_BufferOp : Smelt_ProgramLevelOp<"buffer", [Symbol]> {
  let summary = "memory of a run";
  let description = [{
    Memory that the runtime allocates before the first step, or fills before each one. `size` is that of one slot.

    ```mlir
    smelt.buffer @residual kind(workspace) dtype(f32) size(per_token = 128)
    smelt.buffer @k_cache_h2_d8 kind(state) dtype(f32) size(per_kv_position = 64) slots(6)
    smelt.buffer @rope_d8 kind(rope_table) dtype(f32) size(per_position = 32) rope(<theta = 1.0e4 : f64, dim = 8>)
    ```

    - (C1) `size` has no negative term and is not zero.
    - (C2) `slots` is given for state buffers only and is at least 1.
    - (C3) `rope` is given for rope tables and only for them; its dim is even and positive, its theta positive,
      and the size is 4 * dim bytes per position.
    - (C4) the element type fits the kind: i32 for token ids, positions, sequence ids, logit rows, draws and sampled, f32 for
      logits and rope tables, f32 or bf16 for state, f32 or i32 for workspace.
    - (C5) a model has at most one buffer of each of the kinds token_ids, positions, sequence_ids, logit_rows,
      logits, draws and sampled.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Smelt_BufferKind:$kind, Smelt_DType:$dtype,
                       Smelt_SizeAttr:$size, OptionalAttr<Smelt_Count>:$slots, OptionalAttr<Smelt_RopeAttr>:$rope);
  let assemblyFormat = [{
    $sym_name `kind` `(` $kind `)` `dtype` `(` $dtype `)` `size` `` custom<Size>($size)
    (`slots` `(` $slots^ `)`)? (`rope` `(` $rope^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Smelt_ProgramOp : Smelt_ProgramLevelOp<"program", [NoTerminator, SingleBlock]> {
  let summary = "what one step does";
  let description = [{
    Blocks, run in order. A run's loops over layers and visits are data: a block states their bounds once.

    - (C1) holds only `smelt.block`.
    - (C2) a model has at most one program.
    - (C3) every workspace buffer is written by an earlier call of the step before a call reads it; a block's
      calls count as repeated when it runs more than once.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Smelt_BlockOp : Smelt_ProgramLevelOp<"block", [NoTerminator, SingleBlock, HasParent<"ProgramOp">]> {
  let summary = "kernel calls, once or for every layer and visit";
  let description = [{
    With `layers(a to b)` the calls run for each of the physical layers a..b-1, `visits` times, in the order that
    `order` states: `block` repeats the whole span, `layer` repeats each layer before the next one. The slot of
    state buffers is `slot_base + visit * (b - a) + (layer - a)` in both orders. Without `layers` the calls run
    once and touch no layer.

    ```mlir
    smelt.block layers(1 to 3) visits(2) order(block) slot_base(1) {
      smelt.call @rope_append(...) constants(...)
    }
    ```

    - (C1) holds only `smelt.call`.
    - (C2) with layers: 0 <= a < b, visits >= 1, slot_base >= 0; without: no visits, order or slot_base.
  }];
  let arguments = (ins DefaultValuedAttr<Smelt_Count, "0">:$first_layer, DefaultValuedAttr<Smelt_Count, "0">:$layers,
                       DefaultValuedAttr<Smelt_Count, "1">:$visits,
                       DefaultValuedAttr<Smelt_VisitOrder, "::mlir::smelt::VisitOrder::block">:$order,
                       DefaultValuedAttr<Smelt_Count, "0">:$slot_base);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `` custom<BlockLoop>($first_layer, $layers, $visits, $order, $slot_base) attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // Straight-line calls outside any layer.
    OpBuilder<(ins)>,
    OpBuilder<(ins "int64_t":$firstLayer, "int64_t":$layers, "int64_t":$visits, "VisitOrder":$order,
                   "int64_t":$slotBase)>
  ];
}

def Smelt_CallOp : Smelt_ProgramLevelOp<"call", [HasParent<"BlockOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launches a kernel";
  let description = [{
    Binds memory and constants to a kernel's arguments, in the order of its role.

    ```mlir
    smelt.call @linear_residual_i64_o32_f32(buffer @attn, weight @s0.o_proj, buffer @residual, buffer @residual)
        constants(token_count, immediate 1065353216)
    ```

    - (C1) the callee is a `smelt.kernel`.
    - (C2) there are as many bindings and constants as the role has, each of the kind the role asks for.
    - (C3) a buffer or state_slot binding names a `smelt.buffer`, a weight or weight_table binding a
      `smelt.weight`; state_slot is for state buffers and buffer for all others.
    - (C4) a buffer has the element type and at least the size that the kernel touches; a weight has exactly the
      element type and the number of elements.
    - (C5) a weight that belongs to layers is bound only in a block whose layers all have it; a weight_table has
      as many experts as the kernel.
    - (C6) state_slot is used only in a block with layers, and the buffer has slot_base + layers * visits slots.
    - (C7) the kernel writes only workspace, state, logits and sampled (`argmax` and `sample` also token_ids, positions
      and draws, those of the next step), and nothing it writes is bound twice, except that
      `x_out` may be `x_in`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, TypedArrayAttrBase<Smelt_BindingAttr, "bindings">:$bindings,
                       TypedArrayAttrBase<Smelt_ConstantAttr, "constants">:$constants);
  let assemblyFormat = "$callee `` custom<Bindings>($bindings) `constants` `` custom<Constants>($constants) attr-dict";
  let extraClassDeclaration = [{
    // The kernel this call launches; null when the symbol does not resolve to one.
    KernelOp getKernel();
  }];
}

#endif // SMELT_PROGRAM_OPS
