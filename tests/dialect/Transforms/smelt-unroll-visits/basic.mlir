// RUN: smelt-opt %s --smelt-unroll-visits -split-input-file | FileCheck %s

// Layer order: each layer's visits before the next layer; slots are those of the loop, kv_base + visit * 2 + layer.

// CHECK-LABEL: smelt.model @layer_order
smelt.model @layer_order vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @proj : tensor<4x4xf32> from("layers.{layer}.proj") layers(0 to 2)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // CHECK: %[[A:.*]] = smelt.segment %{{.*}} layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(5)
    // CHECK: %[[B:.*]] = smelt.segment %[[A]] layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(7)
    // CHECK: %[[C:.*]] = smelt.segment %[[B]] layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(9)
    // CHECK: %[[D:.*]] = smelt.segment %[[C]] layers(1 to 2) visits(1) order(block) kv(per_visit) kv_base(6)
    // CHECK: %[[E:.*]] = smelt.segment %[[D]] layers(1 to 2) visits(1) order(block) kv(per_visit) kv_base(8)
    // CHECK: %[[F:.*]] = smelt.segment %[[E]] layers(1 to 2) visits(1) order(block) kv(per_visit) kv_base(10)
    // CHECK-NOT: smelt.segment
    %y = smelt.segment %x layers(0 to 2) visits(3) order(layer) kv(per_visit) kv_base(5) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.linear %h, @proj : tensor<?x4xf32> -> tensor<?x4xf32>
      smelt.yield %u : tensor<?x4xf32>
    }
    // CHECK: smelt.return %[[F]]
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

// One visit: nothing to do.

// CHECK-LABEL: smelt.model @single_visit
smelt.model @single_visit vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @proj : tensor<4x4xf32> from("layers.{layer}.proj") layers(0 to 9)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // CHECK-COUNT-1: smelt.segment %{{.*}} layers(0 to 9) visits(1) order(layer) kv(per_visit) kv_base(2)
    // CHECK-NOT: smelt.segment
    %y = smelt.segment %x layers(0 to 9) visits(1) order(layer) kv(per_visit) kv_base(2) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.linear %h, @proj : tensor<?x4xf32> -> tensor<?x4xf32>
      smelt.yield %u : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}
