// RUN: smelt-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// C1, of the arguments
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.fused' op body has arguments (), but the operands have types ('tensor<?x4xf32>')}}
    %y = smelt.fused role("r")(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
      %e = "test.make"() : () -> tensor<?x4xf32>
      smelt.yield %e : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1, of the results
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.fused' op body yields ('tensor<?x4xf32>'), but the results have types ('tensor<?x5xf32>')}}
    %y = smelt.fused role("r")(%x) : (tensor<?x4xf32>) -> tensor<?x5xf32> {
    ^bb0(%in: tensor<?x4xf32>):
      smelt.yield %in : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1, of the terminator
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.fused' op body ends in smelt.yield, got 'test.end'}}
    %y = smelt.fused role("r")(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%in: tensor<?x4xf32>):
      "test.end"() : () -> ()
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.fused' op holds only smelt ops without regions, got 'test.op'}}
    %y = smelt.fused role("r")(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%in: tensor<?x4xf32>):
      "test.op"() : () -> ()
      smelt.yield %in : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}
