// The labels are those of docs/program.md.
// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// program C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    // expected-error @+1 {{'smelt.buffer' op cannot be in smelt.program, which holds only smelt.block}}
    smelt.buffer @a kind(workspace) dtype(f32) size(per_token = 4)
  }
}

// -----

// program C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    smelt.block {
    }
  }
  // expected-error @+1 {{'smelt.program' op is a second program of the model}}
  smelt.program {
    smelt.block {
    }
  }
}

// -----

// program C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @plan role("moe_plan") params({experts = 4, top_k = 2})
  smelt.buffer @indices kind(workspace) dtype(i32) size(per_token = 8)
  smelt.buffer @p kind(workspace) dtype(i32) size(bytes = 40, per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op reads @indices as 'indices' but no earlier call of the step writes it}}
      smelt.call @plan(buffer @indices, buffer @p) constants(token_count)
    }
  }
}

// -----

// block C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.buffer' op cannot be in smelt.block, which holds only smelt.call}}
      smelt.buffer @a kind(workspace) dtype(f32) size(per_token = 4)
    }
  }
}

// -----

// block C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    // expected-error @+1 {{'smelt.block' op needs first_layer >= 0, layers >= 1, visits >= 1 and slot_base >= 0}}
    smelt.block layers(0 to 1) visits(0) order(block) slot_base(0) {
    }
  }
}

// -----

// block C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    // expected-error @+1 {{'smelt.block' op without layers takes no first layer, visits, order or slot_base}}
    "smelt.block"() <{first_layer = 0 : i64, layers = 0 : i64, visits = 2 : i64, order = 0 : i32, slot_base = 0 : i64}> ({
    ^bb0:
    }) : () -> ()
  }
}

// -----

// block syntax
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    // expected-error @+1 {{layers(3 to 3) holds no layer}}
    smelt.block layers(3 to 3) visits(1) order(block) slot_base(0) {
    }
  }
}

// -----

smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    // expected-error @+1 {{no order 'random'; there are block, layer}}
    smelt.block layers(0 to 3) visits(1) order(random) slot_base(0) {
    }
  }
}
