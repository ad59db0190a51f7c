// RUN: smelt-opt %s -split-input-file -canonicalize | FileCheck %s

// A segment that yields its argument is its input.
// CHECK-LABEL: smelt.model @identity_segment
// CHECK: %[[X:.*]] = smelt.embed
// CHECK-NEXT: smelt.return %[[X]]
smelt.model @identity_segment vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 3) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

// An unused segment goes, attention and all.
// CHECK-LABEL: smelt.model @unused_segment
// CHECK-NOT: smelt.segment
// CHECK: smelt.return
smelt.model @unused_segment vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 3) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %a = smelt.attention %h, %h, %h query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
      smelt.yield %a : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// The order matters only with several layers and several visits.
// CHECK-LABEL: smelt.model @order
// CHECK: layers(0 to 3) visits(1) order(block)
// CHECK: layers(3 to 4) visits(2) order(block)
// CHECK: layers(4 to 6) visits(2) order(layer)
smelt.model @order vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 3) visits(1) order(layer) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %s = smelt.swiglu %h, %h : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %z = smelt.segment %y layers(3 to 4) visits(2) order(layer) kv(per_visit) kv_base(3) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %s = smelt.swiglu %h, %h : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %u = smelt.segment %z layers(4 to 6) visits(2) order(layer) kv(per_visit) kv_base(5) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %s = smelt.swiglu %h, %h : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    smelt.return %u : tensor<?x4xf32>
  }
}

// -----

// A fused op drops what its body ignores, what nobody uses, and then the ops that computed it.
// CHECK-LABEL: smelt.model @fused
// CHECK: %[[X:.*]] = smelt.embed
// CHECK-NEXT: %[[F:.*]] = smelt.fused role("r")(%[[X]]) : (tensor<?x4xf32>) -> tensor<?x4xf32> attributes {note = 1 : i64} {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<?x4xf32>):
// CHECK-NEXT: %[[G:.*]] = smelt.swiglu %[[A]], %[[A]]
// CHECK-NEXT: smelt.yield %[[G]] : tensor<?x4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: smelt.return %[[F]]
smelt.model @fused vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y:3 = smelt.fused role("r")(%tokens, %x) : (tensor<?xi32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?xi32>) attributes {note = 1} {
    ^bb0(%t: tensor<?xi32>, %in: tensor<?x4xf32>):
      %twice = smelt.add %in, %in : tensor<?x4xf32>
      %gated = smelt.swiglu %in, %in : tensor<?x4xf32>
      smelt.yield %twice, %gated, %t : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?xi32>
    }
    smelt.return %y#1 : tensor<?x4xf32>
  }
}

// -----

// An argument yielded to a user stays: the kernel passes the operand on.
// CHECK-LABEL: smelt.model @fused_passes_on
// CHECK: smelt.fused role("r")(%{{.*}}) : (tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
smelt.model @fused_passes_on vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y:2 = smelt.fused role("r")(%x) : (tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
    ^bb0(%in: tensor<?x4xf32>):
      %gated = smelt.swiglu %in, %in : tensor<?x4xf32>
      smelt.yield %gated, %in : tensor<?x4xf32>, tensor<?x4xf32>
    }
    %s = smelt.add %y#0, %y#1 : tensor<?x4xf32>
    smelt.return %s : tensor<?x4xf32>
  }
}

// -----

// heads(1) is the whole row.
// CHECK-LABEL: smelt.model @one_head
// CHECK: smelt.rms_norm %{{.*}}, @norm eps(1.000000e+00) : tensor<?x4xf32>
smelt.model @one_head vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @norm : tensor<4xf32> from("n")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %n = smelt.rms_norm %x, @norm eps(1.0) heads(1) : tensor<?x4xf32>
    smelt.return %n : tensor<?x4xf32>
  }
}

// -----

// 0 * inf is nan: a scale of 0 is no reason to drop an update.
// CHECK-LABEL: smelt.model @scale_of_zero
// CHECK: smelt.residual_add %{{.*}}, %{{.*}} scale(0.000000e+00)
smelt.model @scale_of_zero vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %r = smelt.residual_add %x, %x scale(0.0) : tensor<?x4xf32>
    smelt.return %r : tensor<?x4xf32>
  }
}
