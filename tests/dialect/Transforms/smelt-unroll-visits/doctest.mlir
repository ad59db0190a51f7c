// RUN: smelt-opt %s --smelt-unroll-visits | FileCheck %s

// Two layers visited twice: the segment becomes two, one after the other, that differ in their slots of the KV
// cache alone.

// CHECK-LABEL: smelt.model @looped
smelt.model @looped vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @proj : tensor<4x4xf32> from("layers.{layer}.proj") layers(1 to 3)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // CHECK: %[[X:.*]] = smelt.embed
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // CHECK: %[[FIRST:.*]] = smelt.segment %[[X]] layers(1 to 3) visits(1) order(block) kv(per_visit) kv_base(1)
    // CHECK: smelt.linear %{{.*}}, @proj
    // CHECK: smelt.residual_add %{{.*}}, %{{.*}} scale(5.000000e-01)
    // CHECK: %[[SECOND:.*]] = smelt.segment %[[FIRST]] layers(1 to 3) visits(1) order(block) kv(per_visit) kv_base(3)
    // CHECK: smelt.linear %{{.*}}, @proj
    // CHECK: smelt.residual_add %{{.*}}, %{{.*}} scale(5.000000e-01)
    %y = smelt.segment %x layers(1 to 3) visits(2) order(block) kv(per_visit) kv_base(1) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.linear %h, @proj : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %u scale(0.5) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    // CHECK: smelt.return %[[SECOND]]
    smelt.return %y : tensor<?x4xf32>
  }
}
