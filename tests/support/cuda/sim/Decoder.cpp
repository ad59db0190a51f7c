#include "tests/support/cuda/sim/Decoder.h"

#include "tests/support/cuda/sim/DeviceMemory.h"
#include "tests/support/cuda/sim/Groups.h"
#include "tests/support/cuda/sim/Reconverge.h"

#include <bit>
#include <cstring>

namespace smelt::emu {
namespace {

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

DecodeTable makeTable() {
  DecodeTable table;
  for (const auto add :
       {addControl, addMoves, addIntegers, addBits, addFloats, addMath, addCompare, addConvert, addLoadStore,
        addAtomics, addBarriers, addCollectives, addMatrix, addCopies, addMbarriers, addWgmma}) {
    add(table);
  }
  return table;
}

struct SpecialName {
  std::string_view name;
  SpecialKind kind;
  bool wide = false;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", SpecialKind::TidX},
    {"%tid.y", SpecialKind::TidY},
    {"%tid.z", SpecialKind::TidZ},
    {"%ntid.x", SpecialKind::NtidX},
    {"%ntid.y", SpecialKind::NtidY},
    {"%ntid.z", SpecialKind::NtidZ},
    {"%ctaid.x", SpecialKind::CtaidX},
    {"%ctaid.y", SpecialKind::CtaidY},
    {"%ctaid.z", SpecialKind::CtaidZ},
    {"%nctaid.x", SpecialKind::NctaidX},
    {"%nctaid.y", SpecialKind::NctaidY},
    {"%nctaid.z", SpecialKind::NctaidZ},
    {"%laneid", SpecialKind::Lane},
    {"%warpid", SpecialKind::WarpId},
    {"%nwarpid", SpecialKind::WarpCount},
    {"%smid", SpecialKind::Smid},
    {"%gridid", SpecialKind::Gridid, true},
    {"%lanemask_eq", SpecialKind::MaskEq},
    {"%lanemask_le", SpecialKind::MaskLe},
    {"%lanemask_lt", SpecialKind::MaskLt},
    {"%lanemask_ge", SpecialKind::MaskGe},
    {"%lanemask_gt", SpecialKind::MaskGt},
    {"%dynamic_smem_size", SpecialKind::DynamicShared},
    {"%total_smem_size", SpecialKind::TotalShared},
    // Clusters have one CTA: the cluster grid is the grid.
    {"%clusterid.x", SpecialKind::CtaidX},
    {"%clusterid.y", SpecialKind::CtaidY},
    {"%clusterid.z", SpecialKind::CtaidZ},
    {"%nclusterid.x", SpecialKind::NctaidX},
    {"%nclusterid.y", SpecialKind::NctaidY},
    {"%nclusterid.z", SpecialKind::NctaidZ},
    {"%cluster_ctaid.x", SpecialKind::Zero},
    {"%cluster_ctaid.y", SpecialKind::Zero},
    {"%cluster_ctaid.z", SpecialKind::Zero},
    {"%cluster_ctarank", SpecialKind::Zero},
    {"%cluster_nctaid.x", SpecialKind::One},
    {"%cluster_nctaid.y", SpecialKind::One},
    {"%cluster_nctaid.z", SpecialKind::One},
    {"%cluster_nctarank", SpecialKind::One},
};

} // namespace

KernelLayout::KernelLayout(const Module &module, const Function &kernel, const VariableAddresses &globals,
                           Program &program)
    : module(module), kernel(kernel), program(program) {
  // Widest first, so that every block of 32 values is aligned to its size.
  offsets.resize(kernel.registers.size());
  uint32_t next = 0;
  for (const uint32_t width : {8u, 4u, 2u, 0u}) {
    for (size_t i = 0; i < kernel.registers.size(); ++i) {
      const uint32_t bytes = bytesOf(kernel.registers[i]);
      if (std::max(bytes, bytes == 1 ? 2u : bytes) == width) {
        offsets[i] = next;
        next += width ? width * kWarpSize : 4;
        program.registers_used += width == 8 ? 2 : width == 4 ? 1 : 0;
      }
    }
    next = static_cast<uint32_t>(alignUp(next, 64));
  }
  program.registers_used = std::clamp(program.registers_used, 16u, 255u);
  scratch_ref = next;
  carry_ref = next + 8 * kWarpSize;
  program.register_bytes = carry_ref + 64;
  placeVariables(globals);
}

void KernelLayout::placeVariables(const VariableAddresses &globals) {
  addresses.resize(module.variables.size());
  uint64_t shared = 0, local = 0, dynamic_align = 16;
  const auto mine = [&](size_t i) {
    return std::find(kernel.variables.begin(), kernel.variables.end(), i) != kernel.variables.end();
  };
  std::vector<bool> body(module.variables.size(), false);
  for (const Function &other : module.kernels) {
    for (const uint32_t i : other.variables) {
      body[i] = true;
    }
  }
  for (size_t i = 0; i < module.variables.size(); ++i) {
    const Variable &variable = module.variables[i];
    if (variable.space == Space::Global || variable.space == Space::Const) {
      addresses[i] = globals[i];
    } else if (body[i] && !mine(i)) {
      continue;
    } else if (variable.space == Space::Shared && variable.dynamic_size) {
      dynamic_align = std::max(dynamic_align, variable.align);
    } else {
      // Exactly as aligned as declared, never better: a wider access then faults as it may on a GPU.
      uint64_t &next = variable.space == Space::Shared ? shared : local;
      next = alignUp(next, variable.align);
      if (variable.align < 16 && next % (variable.align * 2) == 0) {
        next += variable.align;
      }
      addresses[i] = next;
      next += variable.bytes;
    }
  }
  program.static_shared = static_cast<uint32_t>(shared);
  program.dynamic_start = static_cast<uint32_t>(alignUp(shared, dynamic_align));
  program.local_bytes = static_cast<uint32_t>(local);
  for (size_t i = 0; i < module.variables.size(); ++i) {
    if (module.variables[i].dynamic_size) {
      addresses[i] = program.dynamic_start;
    }
  }
}

Ref KernelLayout::constant(uint64_t bits, uint32_t width) {
  const auto [found, fresh] = pool[width].emplace(bits, 0);
  if (fresh) {
    const size_t begin = alignUp(program.constants.size(), 64);
    const uint32_t copies = width ? kWarpSize : 1, bytes = width ? width : 4;
    program.constants.resize(begin + size_t(copies) * bytes);
    for (uint32_t i = 0; i < copies; ++i) {
      std::memcpy(program.constants.data() + begin + size_t(i) * bytes, &bits, bytes);
    }
    found->second = static_cast<Ref>(begin) | kConstantBit;
  }
  return found->second;
}

Ref KernelLayout::special(SpecialKind kind, bool wide) {
  const auto [found, fresh] = specials.emplace(static_cast<uint32_t>(kind) * 2 + wide, 0);
  if (fresh) {
    found->second = program.register_bytes;
    program.specials.push_back({kind, program.register_bytes, wide});
    program.register_bytes += (wide ? 8 : 4) * kWarpSize;
  }
  return found->second;
}

bool Decoding::take(std::string_view modifier) {
  if (at < statement.op.size() && statement.op[at] == modifier) {
    ++at;
    return true;
  }
  return false;
}

int Decoding::oneOf(std::initializer_list<std::string_view> choices) {
  int index = 0;
  for (const std::string_view choice : choices) {
    if (take(choice)) {
      return index;
    }
    ++index;
  }
  return -1;
}

Type Decoding::takeType() {
  Type type;
  if (!parseType(peek(), type)) {
    fail("expected a type, found '" + std::string(peek()) + "'");
  }
  ++at;
  return type;
}

void Decoding::ignore(std::initializer_list<std::string_view> choices) {
  while (oneOf(choices) >= 0) {
  }
}

void Decoding::done() const {
  if (at < statement.op.size()) {
    fail("modifier '." + std::string(peek()) + "' is not emulated here");
  }
}

void Decoding::fail(const std::string &reason) const { throw PtxError(statement.line, reason); }

void Decoding::expectCount(size_t least, size_t most) const {
  if (count() < least || count() > most) {
    fail(format("%zu operands, expected %zu to %zu", count(), least, most));
  }
}

const Operand &Decoding::operand(size_t i) const {
  if (i >= statement.args.size()) {
    fail(format("operand %zu is missing", i + 1));
  }
  return statement.args[i];
}

uint32_t Decoding::registerBytes(const Operand &operand) const {
  return operand.kind == OperandKind::Register
             ? std::max(bytesOf(layout.registerType(static_cast<uint32_t>(operand.value))),
                        bytesOf(layout.registerType(static_cast<uint32_t>(operand.value))) == 1 ? 2u : 0u)
             : 0;
}

Ref Decoding::dest(const Operand &operand, uint32_t bytes) {
  if (operand.kind == OperandKind::Discard) {
    return layout.scratch();
  }
  if (operand.kind != OperandKind::Register || registerBytes(operand) != bytes) {
    fail(format("the result needs a register of %u bytes", bytes));
  }
  return layout.registerRef(static_cast<uint32_t>(operand.value));
}

Ref Decoding::source(const Operand &operand, uint32_t bytes, Type immediate_as) {
  switch (operand.kind) {
  case OperandKind::Register:
    if (registerBytes(operand) != bytes || operand.negated) {
      fail(format("operand needs a register of %u bytes", bytes));
    }
    return layout.registerRef(static_cast<uint32_t>(operand.value));
  case OperandKind::Integer:
    if (immediate_as == Type::F32 || immediate_as == Type::F64) {
      fail("integer immediate where a float is expected");
    }
    return layout.constant(static_cast<uint64_t>(operand.value) &
                               (bytes >= 8 ? ~uint64_t(0) : (uint64_t(1) << bytes * 8) - 1),
                           bytes);
  case OperandKind::Float:
    if (bytes == 8) {
      return layout.constant(
          std::bit_cast<uint64_t>(double(std::bit_cast<float>(static_cast<uint32_t>(operand.value)))), 8);
    }
    return layout.constant(static_cast<uint32_t>(operand.value), bytes);
  case OperandKind::Double:
    if (bytes == 4) {
      return layout.constant(
          std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.value))), 4);
    }
    return layout.constant(static_cast<uint64_t>(operand.value), bytes);
  case OperandKind::Variable:
    return layout.constant(
        layout.address(static_cast<uint32_t>(operand.value)) + static_cast<uint64_t>(operand.offset), bytes);
  case OperandKind::Param:
    return layout.constant(layout.kernel.params[operand.value].offset + static_cast<uint64_t>(operand.offset),
                           bytes);
  case OperandKind::Special:
    for (const SpecialName &special : kSpecials) {
      if (special.name == operand.name) {
        return layout.special(special.kind, bytes == 8);
      }
    }
    fail("special register " + operand.name + " is not emulated");
  default:
    fail("unexpected form of operand");
  }
}

Ref Decoding::predicateSource(size_t i) {
  const Operand &operand = this->operand(i);
  if (operand.kind == OperandKind::Integer) {
    return layout.constant((operand.value != 0) != operand.negated ? ~0u : 0u, 0);
  }
  if (operand.kind != OperandKind::Register ||
      layout.registerType(static_cast<uint32_t>(operand.value)) != Type::Pred) {
    fail("operand needs a predicate");
  }
  return layout.registerRef(static_cast<uint32_t>(operand.value)) | (operand.negated ? kNegateBit : 0);
}

Ref Decoding::predicateDest(const Operand &operand) {
  if (operand.kind == OperandKind::Discard) {
    return layout.scratch();
  }
  if (operand.kind != OperandKind::Register ||
      layout.registerType(static_cast<uint32_t>(operand.value)) != Type::Pred) {
    fail("the result needs a predicate");
  }
  return layout.registerRef(static_cast<uint32_t>(operand.value));
}

int64_t Decoding::integer(size_t i) const {
  if (operand(i).kind != OperandKind::Integer) {
    fail(format("operand %zu needs an integer constant", i + 1));
  }
  return operand(i).value;
}

void Decoding::address(Instr &in, size_t i, Ref Instr::*base) {
  const Operand &address = operand(i);
  if (address.kind != OperandKind::Address || address.parts.size() != 1) {
    fail(format("operand %zu needs an address [base+offset]", i + 1));
  }
  const Operand &inner = address.parts[0];
  in.imm += address.offset;
  switch (inner.kind) {
  case OperandKind::Register:
    in.flags |= registerBytes(inner) == 4 ? kShortAddress : 0;
    if (registerBytes(inner) < 4) {
      fail("an address register has 32 or 64 bits");
    }
    in.*base = layout.registerRef(static_cast<uint32_t>(inner.value));
    return;
  case OperandKind::Variable:
    in.imm += static_cast<int64_t>(layout.address(static_cast<uint32_t>(inner.value)));
    break;
  case OperandKind::Param:
    in.imm += static_cast<int64_t>(layout.kernel.params[inner.value].offset);
    break;
  case OperandKind::Integer:
    in.imm += inner.value;
    break;
  default:
    fail("unexpected form of address");
  }
  in.*base = layout.constant(0, 8);
}

uint32_t Decoding::list(Instr &in, const Operand &operand, uint32_t bytes, bool destination) {
  auto &lists = layout.program.lists;
  in.list = static_cast<uint32_t>(lists.size());
  const auto add = [&](const Operand &element) {
    const Ref ref = destination ? dest(element, bytes) : source(element, bytes);
    lists.push_back(ref);
  };
  if (operand.kind == OperandKind::Vector) {
    for (const Operand &element : operand.parts) {
      add(element);
    }
  } else {
    add(operand);
  }
  return static_cast<uint32_t>(lists.size()) - in.list;
}

Program decodeKernel(std::shared_ptr<const Module> module, const Function &kernel,
                     const VariableAddresses &globals) {
  static const DecodeTable table = makeTable();
  Program program;
  program.name = kernel.name;
  program.module = module;
  program.params = kernel.params;
  program.param_bytes = kernel.param_bytes;
  program.reqntid = kernel.reqntid;
  program.maxntid = kernel.maxntid;
  KernelLayout layout(*module, kernel, globals, program);
  program.max_dynamic_shared = 48 * 1024 - std::min<uint32_t>(program.static_shared, 48 * 1024);
  for (const Statement &statement : kernel.body) {
    Decoding decoding(layout, statement);
    Instr in;
    in.line = statement.line;
    if (statement.guard >= 0) {
      in.guard = layout.registerRef(static_cast<uint32_t>(statement.guard)) |
                 (statement.guard_negated ? kNegateBit : 0);
    }
    const auto decode = table.find(statement.op[0]);
    if (decode == table.end()) {
      decoding.fail("unknown instruction '" + statement.op[0] + "'");
    }
    decode->second(decoding, in);
    if (statement.op[0] == "wgmma" ||
        (statement.op[0] == "cp" && statement.op.size() > 2 && statement.op[2] == "bulk")) {
      program.async_proxy = true;
    }
    program.code.push_back(in);
  }
  // Control that runs off the end returns; labels at the end need an instruction to stand at.
  Statement end;
  end.op = {"ret"};
  end.line = kernel.body.empty() ? kernel.line : kernel.body.back().line;
  Decoding decoding(layout, end);
  Instr in;
  in.line = end.line;
  table.at("ret")(decoding, in);
  program.code.push_back(in);
  findReconvergence(program);
  return program;
}

} // namespace smelt::emu
