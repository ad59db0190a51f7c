#include "tests/compiler/Codegen/CUDA/PublishedCell.h"

#include "dialect/IR/KernelSignature.h"

#include <catch2/catch.hpp>

namespace smelt::codegen::test {

Cell publishedCell() {
  constexpr int64_t hidden = Cell::hidden, query = Cell::query, kv = Cell::kv, dim = Cell::dim;
  constexpr int64_t experts = Cell::experts, topK = Cell::topK, features = Cell::features;
  Params expertParams = {
      {"hidden", hidden}, {"expert_hidden", features}, {"experts", experts}, {"top_k", topK}, {"dtype", 1}};
  Cell cell;
  cell.layer = {
      brief("norm_qkv_rope", {{"in", hidden},
                              {"query_heads", query},
                              {"kv_heads", kv},
                              {"head_dim", dim},
                              {"qk_norm", 0},
                              {"bias", 0},
                              {"dtype", 1},
                              {"kv", 1}}),
      brief("attention", {{"query_heads", query}, {"kv_heads", kv}, {"head_dim", dim}, {"kv", 1}}),
      brief("linear_residual", {{"in", query * dim}, {"out", hidden}, {"dtype", 1}}),
      brief("norm_route", {{"in", hidden},
                           {"experts", experts},
                           {"top_k", topK},
                           {"router", 0},
                           {"renormalize", 1},
                           {"dtype", 1}}),
      brief("experts_gate_up_direct", expertParams),
      brief("experts_down_residual", expertParams),
  };
  cell.ends = {
      brief("embed", {{"hidden", hidden}, {"vocab", 65536}, {"dtype", 1}}),
      brief("norm_linear", {{"in", hidden},
                            {"outs", 1},
                            {"out0", 65536},
                            {"out1", 0},
                            {"out2", 0},
                            {"norm", 1},
                            {"emit_norm", 0},
                            {"gather", 1},
                            {"bias", 0},
                            {"dtype", 1}}),
      brief("gate_up", {{"in", hidden}, {"out", 5120}, {"norm", 1}, {"dtype", 1}}),
  };
  cell.sampling = {brief("argmax", {{"vocab", 65536}}), brief("sample", {{"vocab", 65536}})};
  return cell;
}

Work workOf(const KernelDesc &kernel) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  llvm::SmallVector<mlir::NamedAttribute> params;
  for (const auto &[name, value] : kernel.params) {
    params.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  }
  std::string error;
  auto signature = mlir::smelt::kernelSignature(kernel.role, builder.getDictionaryAttr(params), error);
  INFO(kernel.role << ": " << error);
  REQUIRE(signature.has_value());
  Work work{.flops = signature->flops_per_row * signature->rows_per_token + signature->flops_per_token};
  for (const mlir::smelt::KernelArgument &argument : signature->arguments) {
    bool chosen = argument.kind == mlir::smelt::BindingKind::weight_table;
    bool weight = chosen || argument.kind == mlir::smelt::BindingKind::weight;
    work.weight_bytes += weight ? argument.size.bytes * (chosen ? signature->rows_per_token : 1) : 0;
  }
  return work;
}

} // namespace smelt::codegen::test
