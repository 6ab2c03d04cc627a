// The rest of C++ exceptions, for Zig's library: their tag, and the library's last words without printf, which would be a
// tenth of the module and which nobody would see. It must be linked before all else, so that these are found first.
__asm__(
    ".globl __cpp_exception\n"
    ".tagtype __cpp_exception i32\n"
    "__cpp_exception:\n");

_Noreturn void __abort_message(const char* format, ...) {
  (void)format;
  __builtin_trap();
}

// std::__libcpp_verbose_abort(const char*, ...)
_Noreturn void _ZNSt3__122__libcpp_verbose_abortEPKcz(const char* format, ...) {
  (void)format;
  __builtin_trap();
}
