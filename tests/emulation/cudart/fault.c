/* fault.c - the handler of SIGSEGV.  What is not about our memory goes to the handler that was there before,
 * such as a sanitizer's.  Where misuse is only reported the page is opened, and the program goes on; a system
 * call that is given device memory fails with EFAULT, and is not told of here. */
#include "fault.h"
#include "lock.h"
#include "memory.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

static struct sigaction before;

static void tell(uintptr_t at, const emu__block *block)
{
    unsigned long long address = at;

    if (!block) {
        emu_misuse("device memory is touched on the host: 0x%llx, where nothing is allocated", address);
        return;
    }
    unsigned long long offset = at - block->at, start = block->at;
    if (block->freed_by)
        emu_misuse("a buffer is touched on the host after %s: 0x%llx is %llu bytes into the %zu bytes "
                   "allocated by %s at 0x%llx on device %d",
                   block->freed_by, address, offset, block->bytes, block->made_by, start, block->device);
    else
        emu_misuse("a device buffer is touched on the host: 0x%llx is %llu bytes into the %zu bytes "
                   "allocated by %s at 0x%llx on device %d",
                   address, offset, block->bytes, block->made_by, start, block->device);
}

/* True: it was about our memory.  Such a fault may come under the lock: where a program has CUDA write its
 * results to device memory. */
static bool handle(const void *at)
{
    bool locked = emu__locked;

    if (!locked) emu__lock();
    const emu__block *block = emu__block_at(at);
    bool ours = emu__memory_is_window(at) || (block && block->freed_by);
    if (ours) {
        tell((uintptr_t)at, block);
        mprotect((void *)((uintptr_t)at & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
    }
    if (!locked) emu__unlock();
    return ours;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    static _Thread_local bool passing_on; /* to a handler that passes on to this one */
    bool theirs = !passing_on;

    if (info->si_code > 0 && handle(info->si_addr)) return;
    passing_on = true;
    if (theirs && (before.sa_flags & SA_SIGINFO)) {
        before.sa_sigaction(signal, info, context);
    } else if (theirs && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else { /* it faults again, with nobody in between; one that was sent is sent on */
        struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(signal, &none, NULL);
        if (info->si_code <= 0) raise(signal);
    }
    passing_on = false;
}

void emu__fault_watch(void)
{
    struct sigaction action, there;

    if (sigaction(SIGSEGV, NULL, &there)) return;
    if ((there.sa_flags & SA_SIGINFO) && there.sa_sigaction == on_fault) return;
    before = there;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
}
