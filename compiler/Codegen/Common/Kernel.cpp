#include "compiler/Codegen/Common/Kernel.h"

#include <cstdio>
#include <cstdlib>
#include <functional>

namespace smelt::codegen {

int64_t KernelDesc::param(const std::string &key) const {
  auto it = params.find(key);
  if (it == params.end()) {
    std::fprintf(stderr, "kernel '%s' of role '%s' has no parameter '%s'\n", name.c_str(), role.c_str(),
                 key.c_str());
    std::abort();
  }
  return it->second;
}

namespace {

constexpr uint64_t kWord = 4; // bytes of an f32 or i32

KernelBinding perToken(Access access, uint64_t words) {
  return {access, SizeFormula{.per_token = kWord * words}};
}
KernelBinding perLogitRow(Access access, uint64_t words) {
  return {access, SizeFormula{.per_logit_row = kWord * words}};
}
KernelBinding weight(const KernelDesc &k, uint64_t elements) {
  return {Access::read, SizeFormula{.bytes = elements * (k.weightType() == WeightType::bf16 ? 2 : 4)}};
}
KernelBinding kvSlot(Access access, uint64_t width) {
  return {access, SizeFormula{.per_kv_position = kWord * width}};
}
KernelBinding routingPlan(const KernelDesc &k, Access access) {
  uint64_t experts = k.param("experts"), top_k = k.param("top_k");
  return {access, SizeFormula{.bytes = kWord * (2 * experts + 2), .per_token = kWord * 2 * top_k}};
}

KernelInfo embed(const KernelDesc &k) {
  uint64_t hidden = k.param("hidden");
  return {{perToken(Access::read, 1), weight(k, hidden * k.param("vocab")), perToken(Access::write, hidden)}, 1};
}

KernelInfo normLinear(const KernelDesc &k) {
  uint64_t in = k.param("in"), count = k.param("outs"), total = 0;
  KernelInfo info;
  info.bindings.push_back(perToken(Access::read, in));
  if (k.param("norm")) {
    info.bindings.push_back(weight(k, in));
  }
  if (k.param("gather")) {
    info.bindings.push_back(perLogitRow(Access::read, 1));
  }
  if (k.param("emit_norm")) {
    info.bindings.push_back(perToken(Access::write, in));
  }
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t out = k.param("out" + std::to_string(i));
    info.bindings.push_back(weight(k, in * out));
    total += out;
  }
  for (uint64_t i = 0; k.param("bias") && i < count; ++i) {
    info.bindings.push_back(weight(k, k.param("out" + std::to_string(i))));
  }
  info.bindings.push_back(k.param("gather") ? perLogitRow(Access::write, total)
                                            : perToken(Access::write, total));
  info.constants = 2;
  info.flops_per_row = 2 * in * total;
  return info;
}

KernelInfo ropeAppend(const KernelDesc &k) {
  uint64_t head = k.param("head_dim"), q = k.param("query_heads") * head, kv = k.param("kv_heads") * head;
  KernelInfo info;
  info.bindings = {perToken(Access::read, q + 2 * kv), perToken(Access::read, 1), perToken(Access::read, 1),
                   {Access::read, SizeFormula{.per_position = kWord * head}}};
  if (int64_t norm = k.param("qk_norm")) {
    info.bindings.push_back(weight(k, norm == 1 ? head : q));
    info.bindings.push_back(weight(k, norm == 1 ? head : kv));
  }
  info.bindings.push_back(perToken(Access::write, q));
  info.bindings.push_back(kvSlot(Access::write, kv));
  info.bindings.push_back(kvSlot(Access::write, kv));
  info.constants = 3;
  return info;
}

KernelInfo attention(const KernelDesc &k) {
  uint64_t head = k.param("head_dim"), q = k.param("query_heads") * head, kv = k.param("kv_heads") * head;
  return {{perToken(Access::read, q), perToken(Access::read, 1), perToken(Access::read, 1),
           kvSlot(Access::read, kv), kvSlot(Access::read, kv), perToken(Access::write, q)},
          2};
}

KernelInfo linearResidual(const KernelDesc &k) {
  uint64_t in = k.param("in"), out = k.param("out");
  return {{perToken(Access::read, in), weight(k, in * out), perToken(Access::read, out),
           perToken(Access::write, out)},
          2,
          2 * in * out};
}

KernelInfo route(const KernelDesc &k) {
  uint64_t top_k = k.param("top_k");
  return {{perToken(Access::read, k.param("experts")), perToken(Access::write, top_k),
           perToken(Access::write, top_k)},
          1};
}

KernelInfo moePlan(const KernelDesc &k) {
  return {{perToken(Access::read, k.param("top_k")), routingPlan(k, Access::write)}, 1};
}

KernelInfo expertsGateUp(const KernelDesc &k) {
  uint64_t hidden = k.param("hidden"), width = k.param("expert_hidden"), top_k = k.param("top_k");
  return {{perToken(Access::read, hidden), routingPlan(k, Access::read), weight(k, hidden * width),
           weight(k, hidden * width), perToken(Access::write, top_k * width)},
          1,
          4 * hidden * width,
          static_cast<uint32_t>(top_k)};
}

KernelInfo expertsDown(const KernelDesc &k) {
  uint64_t hidden = k.param("hidden"), width = k.param("expert_hidden"), top_k = k.param("top_k");
  return {{perToken(Access::read, top_k * width), routingPlan(k, Access::read), weight(k, hidden * width),
           perToken(Access::write, top_k * hidden)},
          1,
          2 * hidden * width,
          static_cast<uint32_t>(top_k)};
}

KernelInfo combineResidual(const KernelDesc &k) {
  uint64_t hidden = k.param("hidden"), top_k = k.param("top_k");
  return {{perToken(Access::read, top_k * hidden), routingPlan(k, Access::read), perToken(Access::read, top_k),
           perToken(Access::read, hidden), perToken(Access::write, hidden)},
          2};
}

KernelInfo gateUp(const KernelDesc &k) {
  uint64_t in = k.param("in"), out = k.param("out");
  KernelInfo info;
  info.bindings.push_back(perToken(Access::read, in));
  if (k.param("norm")) {
    info.bindings.push_back(weight(k, in));
  }
  info.bindings.push_back(weight(k, in * out));
  info.bindings.push_back(weight(k, in * out));
  info.bindings.push_back(perToken(Access::write, out));
  info.constants = 2;
  info.flops_per_row = 4 * in * out;
  return info;
}

const std::map<std::string, std::function<KernelInfo(const KernelDesc &)>> &roleTable() {
  static const std::map<std::string, std::function<KernelInfo(const KernelDesc &)>> table = {
      {"embed", embed},
      {"norm_linear", normLinear},
      {"rope_append", ropeAppend},
      {"attention", attention},
      {"linear_residual", linearResidual},
      {"route", route},
      {"moe_plan", moePlan},
      {"experts_gate_up", expertsGateUp},
      {"experts_down", expertsDown},
      {"combine_residual", combineResidual},
      {"gate_up", gateUp},
  };
  return table;
}

} // namespace

bool describeKernel(const KernelDesc &kernel, KernelInfo &info) {
  auto it = roleTable().find(kernel.role);
  if (it == roleTable().end()) {
    return false;
  }
  info = it->second(kernel);
  return true;
}

const std::vector<std::string> &kernelRoles() {
  static const std::vector<std::string> roles = [] {
    std::vector<std::string> names;
    for (const auto &[role, describe] : roleTable()) {
      names.push_back(role);
    }
    return names;
  }();
  return roles;
}

} // namespace smelt::codegen
