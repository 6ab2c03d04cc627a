#include "base/version.h"

namespace adaste {

const char* version() { return ADASTE_VERSION; }

}  // namespace adaste
