// RUN: smelt-opt %s --smelt-fuse --smelt-plan-memory -split-input-file -verify-diagnostics

smelt.model @stream_read_after_segment vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op overwrites its input, which is read again after it; no kernel copies}}
    %y = smelt.segment %x layers(0 to 2) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      smelt.yield %u : tensor<?x4xf32>
    }
    %v = smelt.linear %y, @w : tensor<?x4xf32> -> tensor<?x4xf32>
    %z = smelt.residual_add %x, %v scale(1.0) : tensor<?x4xf32>
    %l = smelt.lm_head %z, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
    smelt.return %l : tensor<?x4xf32>
  }
}

// -----

smelt.model @body_needs_a_copy vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op still reads the stream it was given when it writes the one it yields; no kernel copies}}
    %y = smelt.segment %x layers(0 to 2) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      smelt.yield %u : tensor<?x4xf32>
    }
    %l = smelt.lm_head %y, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
    smelt.return %l : tensor<?x4xf32>
  }
}

// -----

smelt.model @returns_no_head vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.return' op must return the result of a smelt.lm_head}}
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// Fused ops written by hand whose body is not what the role computes.

smelt.model @wrong_body vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.fused' op of role 'attention' needs in its body one smelt.attention}}
    %x = smelt.fused role("attention")(%tokens) : (tensor<?xi32>) -> tensor<?x4xf32> {
    ^bb0(%ids: tensor<?xi32>):
      %e = smelt.embed %ids, @embedding : tensor<?xi32> -> tensor<?x4xf32>
      smelt.yield %e : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

smelt.model @wrong_role vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.fused' op has the role 'lookup', which no kernel has}}
    %x = smelt.fused role("lookup")(%tokens) : (tensor<?xi32>) -> tensor<?x4xf32> {
    ^bb0(%ids: tensor<?xi32>):
      %e = smelt.embed %ids, @embedding : tensor<?xi32> -> tensor<?x4xf32>
      smelt.yield %e : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

smelt.model @missing_result vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.fused' op of role 'route' does not yield the result of smelt.route, which its kernel writes}}
    %w = smelt.fused role("route")(%x) : (tensor<?x4xf32>) -> tensor<?x2xf32> {
    ^bb0(%logits: tensor<?x4xf32>):
      %i, %s = smelt.route %logits top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      smelt.yield %s : tensor<?x2xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

smelt.model @superfluous_result vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.fused' op of role 'gate_up' yields as result #1 a value that its kernel does not write}}
    %x:2 = smelt.fused role("gate_up")(%tokens) : (tensor<?xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
    ^bb0(%ids: tensor<?xi32>):
      %e = smelt.embed %ids, @embedding : tensor<?xi32> -> tensor<?x4xf32>
      %g = smelt.linear %e, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
      %u = smelt.linear %e, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
      %a = smelt.swiglu %g, %u : tensor<?x4xf32>
      smelt.yield %a, %g : tensor<?x4xf32>, tensor<?x4xf32>
    }
    smelt.return %x#0 : tensor<?x4xf32>
  }
}
