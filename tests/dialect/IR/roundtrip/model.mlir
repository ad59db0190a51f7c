// A model with every op and every optional part. Text and bytecode must come back the same.
// RUN: smelt-opt %s > %t.once
// RUN: smelt-opt %t.once | diff %t.once -
// RUN: smelt-opt %s --mlir-print-op-generic | smelt-opt | diff %t.once -
// RUN: smelt-opt %s --emit-bytecode | smelt-opt | diff %t.once -
// RUN: FileCheck %s < %t.once

// CHECK-LABEL: smelt.model @all vocab_size(64) hidden_size(32) attributes {budgets = {total_params = 12345 : i64}, spec = "[model]\0A"} {
smelt.model @all vocab_size(64) hidden_size(32) attributes {spec = "[model]\n", budgets = {total_params = 12345}} {
  // CHECK-NEXT: smelt.weight @embedding : tensor<64x32xf32> from("model.embed_tokens.weight")
  smelt.weight @embedding : tensor<64x32xf32> from("model.embed_tokens.weight")
  // CHECK-NEXT: smelt.weight @s0.attention_norm : tensor<32xf32> from("model.layers.{layer}.input_layernorm.weight") layers(0 to 2)
  smelt.weight @s0.attention_norm : tensor<32xf32> from("model.layers.{layer}.input_layernorm.weight") layers(0 to 2)
  smelt.weight @s0.q_proj : tensor<24x32xbf16> from("model.layers.{layer}.self_attn.q_proj.weight") layers(0 to 2)
  smelt.weight @s0.k_proj : tensor<12x32xbf16> from("model.layers.{layer}.self_attn.k_proj.weight") layers(0 to 2)
  smelt.weight @s0.v_proj : tensor<12x32xbf16> from("model.layers.{layer}.self_attn.v_proj.weight") layers(0 to 2)
  smelt.weight @s0.q_bias : tensor<24xbf16> from("model.layers.{layer}.self_attn.q_proj.bias") layers(0 to 2)
  smelt.weight @s0.q_norm : tensor<6xf32> from("model.layers.{layer}.self_attn.q_norm.weight") layers(0 to 2)
  smelt.weight @s0.k_norm : tensor<12xf32> from("model.layers.{layer}.self_attn.k_norm.weight") layers(0 to 2)
  smelt.weight @s0.o_proj : tensor<32x24xbf16> from("model.layers.{layer}.self_attn.o_proj.weight") layers(0 to 2)
  smelt.weight @s0.ffn_norm : tensor<32xf32> from("model.layers.{layer}.post_attention_layernorm.weight") layers(0 to 2)
  smelt.weight @s0.router : tensor<5x32xf32> from("model.layers.{layer}.mlp.gate.weight") layers(0 to 2)
  // CHECK: smelt.weight @s0.expert_gate : tensor<7x32xbf16> from("model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight") layers(0 to 2) experts(5)
  smelt.weight @s0.expert_gate : tensor<7x32xbf16> from("model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight") layers(0 to 2) experts(5)
  smelt.weight @s0.expert_up : tensor<7x32xbf16> from("model.layers.{layer}.mlp.experts.{expert}.up_proj.weight") layers(0 to 2) experts(5)
  smelt.weight @s0.expert_down : tensor<32x7xbf16> from("model.layers.{layer}.mlp.experts.{expert}.down_proj.weight") layers(0 to 2) experts(5)
  smelt.weight @s0.shared_gate : tensor<9x32xbf16> from("model.layers.{layer}.mlp.shared_experts.gate_proj.weight") layers(0 to 2)
  smelt.weight @s0.shared_up : tensor<9x32xbf16> from("model.layers.{layer}.mlp.shared_experts.up_proj.weight") layers(0 to 2)
  smelt.weight @s0.shared_down : tensor<32x9xbf16> from("model.layers.{layer}.mlp.shared_experts.down_proj.weight") layers(0 to 2)
  smelt.weight @final_norm : tensor<32xf32> from("model.norm.weight")
  // CHECK: smelt.forward {
  smelt.forward {
  // CHECK-NEXT: ^bb0(%tokens: tensor<?xi32>):
  ^bb0(%tokens: tensor<?xi32>):
    // CHECK-NEXT: %[[EMBEDDED:.*]] = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x32xf32>
    %embedded = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x32xf32>
    // CHECK-NEXT: smelt.segment %[[EMBEDDED]] layers(0 to 2) visits(3) order(layer) kv(per_visit) kv_base(0) : tensor<?x32xf32> {
    %x = smelt.segment %embedded layers(0 to 2) visits(3) order(layer) kv(per_visit) kv_base(0) : tensor<?x32xf32> {
    // CHECK-NEXT: ^bb0(%x: tensor<?x32xf32>):
    ^bb0(%h: tensor<?x32xf32>):
      // CHECK-NEXT: %[[NORMED:.*]] = smelt.rms_norm %x, @s0.attention_norm eps(9.99999997E-7) : tensor<?x32xf32>
      %a = smelt.rms_norm %h, @s0.attention_norm eps(1.0e-6) : tensor<?x32xf32>
      // CHECK-NEXT: smelt.linear %[[NORMED]], @s0.q_proj bias(@s0.q_bias) : tensor<?x32xf32> -> tensor<?x24xf32>
      %q = smelt.linear %a, @s0.q_proj bias(@s0.q_bias) : tensor<?x32xf32> -> tensor<?x24xf32>
      // CHECK-NEXT: smelt.linear %[[NORMED]], @s0.k_proj : tensor<?x32xf32> -> tensor<?x12xf32>
      %k = smelt.linear %a, @s0.k_proj : tensor<?x32xf32> -> tensor<?x12xf32>
      %v = smelt.linear %a, @s0.v_proj : tensor<?x32xf32> -> tensor<?x12xf32>
      // CHECK: smelt.rms_norm %{{.*}}, @s0.q_norm eps(9.99999997E-7) heads(4) : tensor<?x24xf32>
      %qn = smelt.rms_norm %q, @s0.q_norm eps(1.0e-6) heads(4) : tensor<?x24xf32>
      %kn = smelt.rms_norm %k, @s0.k_norm eps(1.0e-6) : tensor<?x12xf32>
      // CHECK: smelt.rope %{{.*}} heads(4) theta(1.000000e+04) : tensor<?x24xf32>
      %qr = smelt.rope %qn heads(4) theta(1.0e4) : tensor<?x24xf32>
      %kr = smelt.rope %kn heads(2) theta(1.0e4) : tensor<?x12xf32>
      // CHECK: smelt.attention %{{.*}}, %{{.*}}, %{{.*}} query_heads(4) kv_heads(2) head_dim(6) : tensor<?x24xf32>, tensor<?x12xf32>
      %attended = smelt.attention %qr, %kr, %v query_heads(4) kv_heads(2) head_dim(6) : tensor<?x24xf32>, tensor<?x12xf32>
      // CHECK-NEXT: smelt.fused role("linear_residual")(%{{.*}}, %x) : (tensor<?x24xf32>, tensor<?x32xf32>) -> tensor<?x32xf32> attributes {workspace = @residual} {
      // CHECK-NEXT: ^bb0(%{{.*}}: tensor<?x24xf32>, %{{.*}}: tensor<?x32xf32>):
      %x1 = smelt.fused role("linear_residual")(%attended, %h) : (tensor<?x24xf32>, tensor<?x32xf32>) -> tensor<?x32xf32> attributes {workspace = @residual} {
      ^bb0(%in: tensor<?x24xf32>, %to: tensor<?x32xf32>):
        %o = smelt.linear %in, @s0.o_proj : tensor<?x24xf32> -> tensor<?x32xf32>
        // CHECK: smelt.residual_add %{{.*}}, %{{.*}} scale(5.000000e-01) : tensor<?x32xf32>
        %sum = smelt.residual_add %to, %o scale(0.5) : tensor<?x32xf32>
        // CHECK-NEXT: smelt.yield %{{.*}} : tensor<?x32xf32>
        smelt.yield %sum : tensor<?x32xf32>
      }
      %f = smelt.rms_norm %x1, @s0.ffn_norm eps(1.0e-6) : tensor<?x32xf32>
      %logits = smelt.linear %f, @s0.router : tensor<?x32xf32> -> tensor<?x5xf32>
      // CHECK: smelt.route %{{.*}} top_k(2) router(softmax) renormalize : tensor<?x5xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      %indices, %weights = smelt.route %logits top_k(2) router(softmax) renormalize : tensor<?x5xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      // CHECK-NEXT: smelt.route %{{.*}} top_k(2) router(sigmoid) : tensor<?x5xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      %unused:2 = smelt.route %logits top_k(2) router(sigmoid) : tensor<?x5xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      // CHECK-NEXT: smelt.expert_linear %{{.*}}, %{{.*}}, @s0.expert_gate : tensor<?x32xf32>, tensor<?x2xi32> -> tensor<?x2x7xf32>
      %eg = smelt.expert_linear %f, %indices, @s0.expert_gate : tensor<?x32xf32>, tensor<?x2xi32> -> tensor<?x2x7xf32>
      %eu = smelt.expert_linear %f, %indices, @s0.expert_up : tensor<?x32xf32>, tensor<?x2xi32> -> tensor<?x2x7xf32>
      // CHECK: smelt.swiglu %{{.*}}, %{{.*}} : tensor<?x2x7xf32>
      %eh = smelt.swiglu %eg, %eu : tensor<?x2x7xf32>
      // CHECK-NEXT: smelt.expert_linear %{{.*}}, %{{.*}}, @s0.expert_down : tensor<?x2x7xf32>, tensor<?x2xi32> -> tensor<?x2x32xf32>
      %ed = smelt.expert_linear %eh, %indices, @s0.expert_down : tensor<?x2x7xf32>, tensor<?x2xi32> -> tensor<?x2x32xf32>
      // CHECK-NEXT: smelt.combine %{{.*}}, %{{.*}} : tensor<?x2x32xf32>, tensor<?x2xf32> -> tensor<?x32xf32>
      %routed = smelt.combine %ed, %weights : tensor<?x2x32xf32>, tensor<?x2xf32> -> tensor<?x32xf32>
      %sg = smelt.linear %f, @s0.shared_gate : tensor<?x32xf32> -> tensor<?x9xf32>
      %su = smelt.linear %f, @s0.shared_up : tensor<?x32xf32> -> tensor<?x9xf32>
      // CHECK: smelt.swiglu %{{.*}}, %{{.*}} : tensor<?x9xf32>
      %sh = smelt.swiglu %sg, %su : tensor<?x9xf32>
      %shared = smelt.linear %sh, @s0.shared_down : tensor<?x9xf32> -> tensor<?x32xf32>
      // CHECK: smelt.add %{{.*}}, %{{.*}} : tensor<?x32xf32>
      %ffn = smelt.add %routed, %shared : tensor<?x32xf32>
      %x2 = smelt.residual_add %x1, %ffn scale(0.5) : tensor<?x32xf32>
      smelt.yield %x2 : tensor<?x32xf32>
    }
    %normed = smelt.rms_norm %x, @final_norm eps(1.0e-6) : tensor<?x32xf32>
    // CHECK: smelt.lm_head %{{.*}}, @embedding : tensor<?x32xf32> -> tensor<?x64xf32>
    %logits = smelt.lm_head %normed, @embedding : tensor<?x32xf32> -> tensor<?x64xf32>
    // CHECK-NEXT: smelt.return %{{.*}} : tensor<?x64xf32>
    smelt.return %logits : tensor<?x64xf32>
  }
}
