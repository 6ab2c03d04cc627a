// The order of one-bit weights.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/contract.h"

namespace adaste {

// Rows of weights in the order of kernels (row, column, channel), from those in a file's order (channel, row, column).
std::vector<uint8_t> channels_last(const ConvShape& shape, const uint8_t* rows);

}  // namespace adaste
