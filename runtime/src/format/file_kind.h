// What a file seems to be that is not a packed network: people name the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace adaste {

// By the first bytes, "a PNG" for example; null where they tell nothing.
const char* file_kind(const uint8_t* bytes, size_t size);

}  // namespace adaste
