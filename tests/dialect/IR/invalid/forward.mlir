// RUN: smelt-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// C1, of the argument
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  // expected-error @+1 {{'smelt.forward' op body needs one argument of type tensor<?xi32>, got ('tensor<?xi64>')}}
  smelt.forward {
  ^bb0(%tokens: tensor<?xi64>):
    %x = "test.make"() : () -> tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1, of the terminator
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  // expected-error @+1 {{'smelt.forward' op body ends in smelt.return, got 'test.end'}}
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    "test.end"() : () -> ()
  }
}

// -----

// C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @head : tensor<5x4xf32> from("h")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %logits = smelt.lm_head %x, @head : tensor<?x4xf32> -> tensor<?x5xf32>
    // expected-error @+1 {{'smelt.return' op returns rows of 5 logits, but the model's vocab_size is 4}}
    smelt.return %logits : tensor<?x5xf32>
  }
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op uses KV slots from 5, but another segment uses 0 to 6}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(5) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    // expected-note @+1 {{the other segment}}
    %z = smelt.segment %y layers(1 to 4) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %z : tensor<?x4xf32>
  }
}
