// Where an element of a packed weight lies, for the kernels that the runtime carries as PTX.
#pragma once

namespace smelt::runtime::cuda {

// A PTX block: %offset = elements from the start of a matrix of %stride_rows x %stride_columns, padding
// included, to element (%row, %column); %tiled is 0 for the layout `rows`. All are .b32 registers.
inline constexpr const char *packedOffsetPtx = R"(
    {
        .reg .pred %is_tiled;
        .reg .b32 %top, %left, %height, %width, %a, %b, %plain;
        mad.lo.u32 %plain, %row, %stride_columns, %column;
        and.b32 %top, %row, -64;
        and.b32 %left, %column, -64;
        sub.u32 %height, %stride_rows, %top;
        min.u32 %height, %height, 64;
        sub.u32 %width, %stride_columns, %left;
        min.u32 %width, %width, 64;
        mul.lo.u32 %offset, %top, %stride_columns;
        mad.lo.u32 %offset, %left, %height, %offset;
        // block (a, b) of the tile, 8 x 8 elements
        and.b32 %a, %row, 63;
        shr.u32 %a, %a, 3;
        and.b32 %b, %column, 63;
        shr.u32 %b, %b, 3;
        shr.u32 %width, %width, 3;
        mad.lo.u32 %a, %a, %width, %b;
        mad.lo.u32 %offset, %a, 64, %offset;
        and.b32 %a, %row, 7;
        mad.lo.u32 %offset, %a, 8, %offset;
        and.b32 %b, %column, 7;
        add.u32 %offset, %offset, %b;
        setp.ne.u32 %is_tiled, %tiled, 0;
        selp.b32 %offset, %offset, %plain, %is_tiled;
    }
)";

} // namespace smelt::runtime::cuda
