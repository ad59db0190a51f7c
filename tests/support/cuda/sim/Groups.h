// The instruction groups. Each adds the opcodes it knows to the decoder's table.
#pragma once

#include "tests/support/cuda/sim/Decoder.h"

namespace smelt::emu {

void addControl(DecodeTable &table);
void addMoves(DecodeTable &table);
void addIntegers(DecodeTable &table);
void addBits(DecodeTable &table);
void addFloats(DecodeTable &table);
void addMath(DecodeTable &table);
void addCompare(DecodeTable &table);
void addConvert(DecodeTable &table);
void addLoadStore(DecodeTable &table);
void addAtomics(DecodeTable &table);
void addBarriers(DecodeTable &table);
void addCollectives(DecodeTable &table);
void addMatrix(DecodeTable &table);
void addCopies(DecodeTable &table);
void addMbarriers(DecodeTable &table);
void addWgmma(DecodeTable &table);

} // namespace smelt::emu
