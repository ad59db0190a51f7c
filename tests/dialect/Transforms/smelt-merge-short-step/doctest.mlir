// A layer of attention and experts as the kernels of a step of few tokens: six, with shared experts or without.
// RUN: smelt-opt %s --smelt-fuse --smelt-merge-short-step | FileCheck %s
// RUN: smelt-opt %s --smelt-fuse --smelt-merge-short-step --smelt-plan-memory --smelt-to-kernels | FileCheck %s --check-prefix=PROGRAM

// The cache of a GPU: bf16, rows padded to 16 bytes.
// PROGRAM: smelt.buffer @k_cache_h1_d4 kind(state) dtype(bf16) size(per_kv_position = 16) slots(4)
// No call of moe_plan: the experts find their rows through the indices of the choice.
// PROGRAM: smelt.call @norm_route_{{.*}}_s6(
// PROGRAM-NEXT: smelt.call @experts_gate_up_direct_{{.*}}_s6(
// PROGRAM-NEXT: smelt.call @experts_down_residual

smelt.model @moe vocab_size(8) hidden_size(8) attributes {device = "cuda"} {
  smelt.weight @embedding : tensor<8x8xf32> from("embedding")
  smelt.weight @attention_norm : tensor<8xf32> from("l{layer}.an") layers(0 to 2)
  smelt.weight @q : tensor<8x8xf32> from("l{layer}.q") layers(0 to 2)
  smelt.weight @k : tensor<4x8xf32> from("l{layer}.k") layers(0 to 2)
  smelt.weight @v : tensor<4x8xf32> from("l{layer}.v") layers(0 to 2)
  smelt.weight @qb : tensor<8xf32> from("l{layer}.qb") layers(0 to 2)
  smelt.weight @kb : tensor<4xf32> from("l{layer}.kb") layers(0 to 2)
  smelt.weight @vb : tensor<4xf32> from("l{layer}.vb") layers(0 to 2)
  smelt.weight @q_norm : tensor<4xf32> from("l{layer}.qn") layers(0 to 2)
  smelt.weight @k_norm : tensor<4xf32> from("l{layer}.kn") layers(0 to 2)
  smelt.weight @o : tensor<8x8xf32> from("l{layer}.o") layers(0 to 2)
  smelt.weight @ffn_norm : tensor<8xf32> from("l{layer}.fn") layers(0 to 2)
  smelt.weight @router : tensor<3x8xf32> from("l{layer}.router") layers(0 to 2)
  smelt.weight @expert_gate : tensor<6x8xf32> from("l{layer}.e{expert}.g") layers(0 to 2) experts(3)
  smelt.weight @expert_up : tensor<6x8xf32> from("l{layer}.e{expert}.u") layers(0 to 2) experts(3)
  smelt.weight @expert_down : tensor<8x6xf32> from("l{layer}.e{expert}.d") layers(0 to 2) experts(3)
  smelt.weight @shared_gate : tensor<6x8xf32> from("l{layer}.sg") layers(0 to 2)
  smelt.weight @shared_up : tensor<6x8xf32> from("l{layer}.su") layers(0 to 2)
  smelt.weight @shared_down : tensor<8x6xf32> from("l{layer}.sd") layers(0 to 2)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x8xf32>
    %y = smelt.segment %x layers(0 to 2) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x8xf32> {
    // CHECK: ^bb0(%[[H:.*]]: tensor<?x8xf32>):
    ^bb0(%h: tensor<?x8xf32>):
      // CHECK: %[[R:.*]]:3 = smelt.fused role("norm_qkv_rope")(%[[H]])
      // CHECK: smelt.rms_norm %{{.*}}, @attention_norm
      // CHECK-NEXT: smelt.linear %{{.*}}, @q
      // CHECK-NEXT: smelt.linear %{{.*}}, @k
      // CHECK-NEXT: smelt.linear %{{.*}}, @v
      // CHECK-NEXT: smelt.rms_norm %{{.*}}, @q_norm
      // CHECK-NEXT: smelt.rms_norm %{{.*}}, @k_norm
      // CHECK-NEXT: smelt.rope
      // CHECK-NEXT: smelt.rope
      %n = smelt.rms_norm %h, @attention_norm eps(1.0e-5) : tensor<?x8xf32>
      %v = smelt.linear %n, @v bias(@vb) : tensor<?x8xf32> -> tensor<?x4xf32>
      %k = smelt.linear %n, @k bias(@kb) : tensor<?x8xf32> -> tensor<?x4xf32>
      %kn = smelt.rms_norm %k, @k_norm eps(1.0e-5) heads(1) : tensor<?x4xf32>
      %kr = smelt.rope %kn heads(1) theta(1.0e4) : tensor<?x4xf32>
      %q = smelt.linear %n, @q bias(@qb) : tensor<?x8xf32> -> tensor<?x8xf32>
      %qn = smelt.rms_norm %q, @q_norm eps(1.0e-5) heads(2) : tensor<?x8xf32>
      %qr = smelt.rope %qn heads(2) theta(1.0e4) : tensor<?x8xf32>
      // CHECK: %[[A:.*]] = smelt.fused role("attention")(%[[R]]#1, %[[R]]#2, %[[R]]#0)
      %a = smelt.attention %qr, %kr, %v query_heads(2) kv_heads(1) head_dim(4) : tensor<?x8xf32>, tensor<?x4xf32>
      // CHECK: %[[X1:.*]] = smelt.fused role("linear_residual")(%[[A]], %[[H]])
      %o = smelt.linear %a, @o : tensor<?x8xf32> -> tensor<?x8xf32>
      %x1 = smelt.residual_add %h, %o scale(0.5) : tensor<?x8xf32>
      // CHECK: %[[N:.*]]:4 = smelt.fused role("norm_route")(%[[X1]])
      // CHECK: smelt.rms_norm
      // CHECK-NEXT: smelt.linear %{{.*}}, @router
      // CHECK-NEXT: smelt.route
      // CHECK-NEXT: smelt.linear %{{.*}}, @shared_gate
      // CHECK-NEXT: smelt.linear %{{.*}}, @shared_up
      // CHECK-NEXT: smelt.swiglu
      %fn = smelt.rms_norm %x1, @ffn_norm eps(1.0e-5) : tensor<?x8xf32>
      %logits = smelt.linear %fn, @router : tensor<?x8xf32> -> tensor<?x3xf32>
      %i, %w = smelt.route %logits top_k(2) router(sigmoid) : tensor<?x3xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      // The write of the shared experts comes first: the experts go on from it.
      // CHECK: %[[E:.*]]:2 = smelt.fused role("experts_gate_up_direct")(%[[N]]#0, %[[N]]#1, %[[N]]#3, %[[X1]])
      // CHECK: smelt.swiglu
      // CHECK-NEXT: smelt.linear %{{.*}}, @shared_down
      // CHECK-NEXT: smelt.residual_add
      %eg = smelt.expert_linear %fn, %i, @expert_gate : tensor<?x8xf32>, tensor<?x2xi32> -> tensor<?x2x6xf32>
      %eu = smelt.expert_linear %fn, %i, @expert_up : tensor<?x8xf32>, tensor<?x2xi32> -> tensor<?x2x6xf32>
      %es = smelt.swiglu %eg, %eu : tensor<?x2x6xf32>
      %ed = smelt.expert_linear %es, %i, @expert_down : tensor<?x2x6xf32>, tensor<?x2xi32> -> tensor<?x2x8xf32>
      %c = smelt.combine %ed, %w : tensor<?x2x8xf32>, tensor<?x2xf32> -> tensor<?x8xf32>
      %sg = smelt.linear %fn, @shared_gate : tensor<?x8xf32> -> tensor<?x6xf32>
      %su = smelt.linear %fn, @shared_up : tensor<?x8xf32> -> tensor<?x6xf32>
      %ss = smelt.swiglu %sg, %su : tensor<?x6xf32>
      %sd = smelt.linear %ss, @shared_down : tensor<?x6xf32> -> tensor<?x8xf32>
      // CHECK: %[[X2:.*]] = smelt.fused role("experts_down_residual")(%[[E]]#0, %[[N]]#1, %[[N]]#2, %[[E]]#1)
      // CHECK: smelt.expert_linear %{{.*}}, @expert_down
      // CHECK-NEXT: smelt.combine
      // CHECK-NEXT: smelt.residual_add
      %sum = smelt.add %c, %sd : tensor<?x8xf32>
      %x2 = smelt.residual_add %x1, %sum scale(0.5) : tensor<?x8xf32>
      // CHECK: smelt.yield %[[X2]]
      smelt.yield %x2 : tensor<?x8xf32>
    }
    // Without a normalisation the head is a kernel of the same role.
    %l = smelt.lm_head %y, @embedding : tensor<?x8xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
