// The tool: a model, a safetensors file, tokens in; predictions, logits and routing out.
// REQUIRES: smelt-interpret
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/make_weights.py %t/w.safetensors
// RUN: smelt-interpret %s --weights %t/w.safetensors --tokens 2,0 --logits %t/l.npy --routing %t/r.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=ROUTING < %t/r.json
// RUN: %python %S/Inputs/print_npy.py %t/l.npy | FileCheck %s --check-prefix=LOGITS
// RUN: not smelt-interpret %s --weights %t/none --tokens 2 2>&1 | FileCheck %s --check-prefix=NO-FILE
// RUN: not smelt-interpret %s --weights %t/w.safetensors --tokens 3 2>&1 | FileCheck %s --check-prefix=TOKEN
// RUN: not smelt-interpret %s --weights %t/w.safetensors --tokens 1 --logits %t/no/l.npy 2>&1 | FileCheck %s --check-prefix=OUTPUT

// Each token's logits are its embedding plus half the row of its expert.
// CHECK: token 0: next 2 logit 6
// CHECK-NEXT: token 1: next 0 logit 3
// LOGITS: <f8 (2, 3)
// LOGITS-NEXT: 0.0 1.0 6.0
// LOGITS-NEXT: 3.0 0.5 0.0
// ROUTING: "slot": 7,
// ROUTING-NEXT: "layer": 1,
// ROUTING-NEXT: "visit": 0,
// ROUTING-NEXT: "token": 0,
// ROUTING-NEXT: "experts": [
// ROUTING-NEXT: 2
// ROUTING-NEXT: ],
// ROUTING-NEXT: "weights": [
// ROUTING-NEXT: 1.0
// ROUTING-NEXT: ],
// ROUTING-NEXT: "gap": 4.0
// NO-FILE: smelt-interpret: {{.*}}/none: cannot be read: No such file or directory
// TOKEN: error: 'smelt.model' op has a vocabulary of 3 tokens, got token 3
// OUTPUT: smelt-interpret: {{.*}}/no/l.npy: cannot be written
smelt.model @m vocab_size(3) hidden_size(3) {
  smelt.weight @embedding : tensor<3x3xf32> from("embedding")
  smelt.weight @expert : tensor<3x3xbf16> from("layers.{layer}.experts.{expert}") layers(1 to 2) experts(3)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x3xf32>
    %y = smelt.segment %x layers(1 to 2) visits(1) order(block) kv(per_visit) kv_base(7) : tensor<?x3xf32> {
    ^bb0(%h: tensor<?x3xf32>):
      %i, %w = smelt.route %h top_k(1) router(softmax) renormalize : tensor<?x3xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
      %e = smelt.expert_linear %h, %i, @expert : tensor<?x3xf32>, tensor<?x1xi32> -> tensor<?x1x3xf32>
      %c = smelt.combine %e, %w : tensor<?x1x3xf32>, tensor<?x1xf32> -> tensor<?x3xf32>
      %s = smelt.residual_add %h, %c scale(0.5) : tensor<?x3xf32>
      smelt.yield %s : tensor<?x3xf32>
    }
    smelt.return %y : tensor<?x3xf32>
  }
}
