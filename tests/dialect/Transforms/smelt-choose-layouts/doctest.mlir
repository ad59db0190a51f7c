// RUN: smelt-opt %s --smelt-fuse --smelt-choose-layouts | FileCheck %s
// RUN: smelt-opt %s --smelt-fuse --smelt-choose-layouts --smelt-plan-memory --smelt-to-kernels | FileCheck %s --check-prefix=KERNEL

// What is multiplied with is packed: projections, and the embedding, which is the head as well. Norms are not.

// CHECK-LABEL: smelt.model @dense
smelt.model @dense vocab_size(8) hidden_size(4) {
  // CHECK: smelt.weight @embedding {{.*}} layout(panel16)
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  // CHECK: smelt.weight @norm : tensor<4xf32> from("layers.{layer}.norm") layers(0 to 2){{$}}
  smelt.weight @norm : tensor<4xf32> from("layers.{layer}.norm") layers(0 to 2)
  // CHECK-COUNT-3: smelt.weight {{.*}} layers(0 to 2) layout(panel16)
  smelt.weight @gate : tensor<6x4xf32> from("layers.{layer}.gate") layers(0 to 2)
  smelt.weight @up : tensor<6x4xf32> from("layers.{layer}.up") layers(0 to 2)
  smelt.weight @down : tensor<4x6xf32> from("layers.{layer}.down") layers(0 to 2)
  // KERNEL: smelt.kernel @embed_h4_v8_f32_panel16
  // KERNEL: smelt.kernel @gate_up_i4_o6_f32_panel16
  // KERNEL: smelt.kernel @linear_residual_i6_o4_f32_panel16
  // KERNEL: smelt.kernel @norm_linear_h4_o8_raw_rows_f32_panel16
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %n = smelt.rms_norm %h, @norm eps(1.0e-5) : tensor<?x4xf32>
      %g = smelt.linear %n, @gate : tensor<?x4xf32> -> tensor<?x6xf32>
      %u = smelt.linear %n, @up : tensor<?x4xf32> -> tensor<?x6xf32>
      %a = smelt.swiglu %g, %u : tensor<?x6xf32>
      %d = smelt.linear %a, @down : tensor<?x6xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %l = smelt.lm_head %y, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
