// Ops are functions of their operands, so that equal ones merge; a weight that nothing names goes.
// RUN: smelt-opt %s -cse | FileCheck %s --check-prefix=CSE
// RUN: smelt-opt %s -cse -symbol-dce | FileCheck %s --check-prefix=DCE

// DCE-NOT: @unused
// DCE: smelt.weight @embedding
// DCE-NOT: @unused
// DCE: smelt.weight @norm
// DCE-NOT: @unused
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @unused : tensor<4xf32> from("u")
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @norm : tensor<4xf32> from("layers.{layer}.n") layers(0 to 1)
  smelt.weight @unused_too : tensor<4xf32> from("layers.{layer}.u") layers(0 to 1)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // CSE: ^bb0(%[[H:.*]]: tensor<?x4xf32>):
      // CSE-NEXT: %[[N:.*]] = smelt.rms_norm %[[H]]
      // CSE-NEXT: %[[A:.*]] = smelt.attention %[[N]], %[[N]], %[[N]]
      // CSE-NEXT: %[[S:.*]] = smelt.add %[[H]], %[[A]]
      // CSE-NEXT: %[[R:.*]] = smelt.residual_add %[[S]], %[[S]]
      // CSE-NEXT: smelt.yield %[[R]]
      %n0 = smelt.rms_norm %h, @norm eps(1.0) : tensor<?x4xf32>
      %n1 = smelt.rms_norm %h, @norm eps(1.0) : tensor<?x4xf32>
      %a0 = smelt.attention %n0, %n1, %n0 query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
      // The sum of two numbers does not depend on their order.
      %s0 = smelt.add %h, %a0 : tensor<?x4xf32>
      %s1 = smelt.add %a0, %h : tensor<?x4xf32>
      %r = smelt.residual_add %s0, %s1 scale(1.0) : tensor<?x4xf32>
      smelt.yield %r : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}
