// RUN: smelt-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op needs layers(a to b) with 0 <= a < b <= 65536, got layers(2 to 2)}}
    %y = smelt.segment %x layers(2 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op needs layers(a to b) with 0 <= a < b <= 65536, got layers(-1 to 2)}}
    %y = smelt.segment %x layers(-1 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.segment' op needs 1 to 65536 visits, got 0}}
    %y = smelt.segment %x layers(0 to 1) visits(0) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op needs a kv_base from 0 to 2147483647, got -4}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(-4) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C4, of the argument
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op body has arguments ('tensor<?x5xf32>'), but the operands have types ('tensor<?x4xf32>')}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x5xf32>):
      smelt.yield %h : tensor<?x5xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C4, of the result
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op body yields (), but the results have types ('tensor<?x4xf32>')}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C4, of the terminator
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op body ends in smelt.yield, got 'test.end'}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      "test.end"() : () -> ()
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C5
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op has one KV slot for each executed layer, but 2 attentions in its body}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %a0 = smelt.attention %h, %h, %h query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
      // expected-note @+1 {{the second}}
      %a1 = smelt.attention %h, %h, %h query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
      smelt.yield %a1 : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op needs layers(a to b) with 0 <= a < b <= 65536, got layers(0 to 9223372036854775807)}}
    %y = smelt.segment %x layers(0 to 9223372036854775807) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.segment' op needs 1 to 65536 visits, got 9223372036854775807}}
    %y = smelt.segment %x layers(0 to 1) visits(9223372036854775807) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.segment' op needs a kv_base from 0 to 2147483647, got 9223372036854775807}}
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(9223372036854775807) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}
