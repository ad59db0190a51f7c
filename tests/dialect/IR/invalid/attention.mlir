// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.attention' op needs positive sizes and query_heads a multiple of kv_heads, got query_heads 3, kv_heads 2 and head_dim 2}}
    %a = smelt.attention %x, %x, %x query_heads(3) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.attention' op needs positive sizes and query_heads a multiple of kv_heads, got query_heads 2, kv_heads 2 and head_dim 0}}
    %a = smelt.attention %x, %x, %x query_heads(2) kv_heads(2) head_dim(0) : tensor<?x4xf32>, tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C2, of the query
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.attention' op has a query of 4 columns, but 4 heads of 2}}
    %a = smelt.attention %x, %x, %x query_heads(4) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C2, of key and value
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.attention' op has a key of 4 columns, but 1 heads of 2}}
    %a = smelt.attention %x, %x, %x query_heads(2) kv_heads(1) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.attention' op is outside any segment, which would give it a slot of the KV cache}}
    %a = smelt.attention %x, %x, %x query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
