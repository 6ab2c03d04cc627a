// The rest of C++ in WebAssembly, which Zig's library lacks: the tag of exceptions, and destructors at the end of a
// thread, which no instance comes to.
__asm__(
    ".globl __cpp_exception\n"
    ".tagtype __cpp_exception i32\n"
    "__cpp_exception:\n");

extern "C" int __cxa_thread_atexit(void (*/*destructor*/)(void*), void* /*object*/, void* /*library*/) { return 0; }
