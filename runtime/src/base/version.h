// The version of this library, as the Python package states it.
#pragma once

namespace adaste {

const char* version();

}  // namespace adaste
