//===- Passes.td - target-independent passes of the smelt dialect ---------------------------------------===//
//
// In the order of the lowering; compiler/Lowering/Pipeline.h strings them together. The example of each pass
// is tests/dialect/Transforms/<pass>/doctest.mlir, which is also its test.
//
//===-----------------------------------------------------------------------------------------------------===//
#ifndef SMELT_TRANSFORMS_PASSES
#define SMELT_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def SmeltUnrollVisits : Pass<"smelt-unroll-visits", "::mlir::smelt::ModelOp"> {
  let summary = "write the visits of a segment out as segments of one visit";
  let description = [{
    Replaces a segment of several visits by segments of one visit each that say the same: in block order one per
    visit, in layer order one per layer and visit. Each keeps the body, so it uses the same weights and residual
    scale, and gets the `kv_base` of its own slots, so it uses the same slots of the KV cache. The two forms
    compute the same bits.

    The default lowering does not need it: the loop stays data in the artifact. It exists to check the loop
    against straight-line execution, and for targets that want every executed layer spelled out.

    Left to later passes: merging what the copies share. smelt-to-kernels gives equal bodies the same kernels.

    Example: tests/dialect/Transforms/smelt-unroll-visits/doctest.mlir
  }];
}

def SmeltFuse : Pass<"smelt-fuse", "::mlir::smelt::ModelOp"> {
  let summary = "group the ops of each kernel into a smelt.fused";
  let description = [{
    Puts every op of the forward into exactly one `smelt.fused`, whose role names the kernel that will compute
    it (docs/program.md): normalisation with the projections that read it, QK-norm and rotation with the write
    to the KV cache, gate and up projection with SwiGLU, the last projection or the weighted combination with
    the scaled residual write. A fused op reads and writes memory once where its ops would each have done so.

    A normalised row that others read besides the fused projections is handed out as a further result, which
    the experts use. `residual_add(x, add(a, b))` becomes two residual writes, equal up to rounding, since
    each is the end of one kernel.

    Fails, naming the op, on ops that no role covers. Left to later passes: where results live
    (smelt-plan-memory) and which kernels are the same (smelt-to-kernels).

    Example: tests/dialect/Transforms/smelt-fuse/doctest.mlir
  }];
}

def SmeltMergeShortStep : Pass<"smelt-merge-short-step", "::mlir::smelt::ModelOp"> {
  let summary = "merge the fused ops of a layer for steps of few tokens";
  let description = [{
    On a device that launches kernels one by one, a step of few tokens waits more for launches than for
    arithmetic. This pass, after smelt-fuse, makes fewer and larger fused ops: the attention's normalisation,
    projections, rotation and cache write (`norm_qkv_rope`), normalisation, router and choice of experts (`norm_route`), and the experts' last projection with the
    weighted sum and the residual write (`experts_down_residual`). The experts then find their rows through
    the chosen indices, without a routing plan (`experts_gate_up_direct`). What shared experts compute goes along:
    their first projections with the router, whose input they read, and the last one, with its residual write,
    with the first projections of the experts, whose residual write then follows it.

    A sparse layer ends with six fused ops, a dense one with five. Left to later passes: as for
    smelt-fuse.

    Example: tests/dialect/Transforms/smelt-merge-short-step/doctest.mlir
  }];
}

def SmeltChooseLayouts : Pass<"smelt-choose-layouts", "::mlir::smelt::ModelOp"> {
  let summary = "choose how each weight lies in memory";
  let description = [{
    Gives `layout(panel16)` to every matrix that activations are multiplied with, which is the form the kernels of
    CPUs read; norm weights, biases and an embedding table that is no head stay as the file has them. A table that
    is both embedding and head is packed once, and rows are gathered from its panels. The kernels of a weight get
    its layout as a parameter, so this runs before smelt-plan-memory, which is the first to ask for them.

    Left to the runtime: packing, when it loads the weights.

    Example: tests/dialect/Transforms/smelt-choose-layouts/doctest.mlir
  }];
}

def SmeltPlanMemory : Pass<"smelt-plan-memory", "::mlir::smelt::ModelOp"> {
  let summary = "give every result of a fused op a buffer";
  let description = [{
    Adds the `smelt.buffer`s of the model and states on each fused op, in `results_in`, where its results go.
    Results whose lifetimes do not overlap share a workspace buffer; sizes are affine in the tokens of a step.
    The residual stream stays in one buffer: a residual write whose input is not read again goes on top of it,
    and a segment starts and ends every run of its body in that same buffer, so that the loop needs no copy.
    The results of one projection kernel lie side by side in the rows of one buffer.

    Attention of one geometry (KV heads and head size) shares a pair of state buffers, one slot per executed
    layer; a segment states its first slot there in `slot_base`, which follows the order of the segments'
    `kv_base`.

    Buffers are assigned largest first, each to the first one that is free all along its lifetime. Fails when a
    value would need a copy. Left to smelt-to-kernels: kernels and calls.

    Example: tests/dialect/Transforms/smelt-plan-memory/doctest.mlir
  }];
}

def SmeltToKernels : Pass<"smelt-to-kernels", "::mlir::smelt::ModelOp"> {
  let summary = "replace the forward by kernels and the step program";
  let description = [{
    Turns each fused op into a `smelt.call` of a `smelt.kernel`, one kernel per distinct (role, params) of the
    model, and each segment into a `smelt.block` that loops over its layers and visits. Kernels are therefore as
    many as there are shapes, however deep the model is and however often layers are visited. Routing is
    followed by a call of `moe_plan`, which sorts the tokens by expert once for the kernels after it.

    Left to the back ends: code for the kernels, and the artifact, which holds the program as it is.

    Example: tests/dialect/Transforms/smelt-to-kernels/doctest.mlir
  }];
}

def SmeltAddSampling : Pass<"smelt-add-sampling", "::mlir::smelt::ModelOp"> {
  let summary = "end the step program by choosing tokens";
  let description = [{
    Appends calls of the kernels `argmax` and `sample` to a program that leaves logits, with the buffers `draws`,
    how each row's token is chosen, and `sampled`, where it goes. The runtime launches one of them, or none when the
    caller wants the logits themselves. They can also prepare the next step's token ids and positions, so that a
    device goes from step to step on its own.

    For devices; on a CPU the runtime chooses tokens itself, by the same rule.

    Example: tests/dialect/Transforms/smelt-add-sampling/doctest.mlir
  }];
}

#endif // SMELT_TRANSFORMS_PASSES
