/* bench_help.c - weft-bench --help: its manual. */
#include "bench_options.h"

#include <stdio.h>

static void list(const char *const *words, int n)
{
    int column = 0;
    for (int i = 0; i < n; i++) {
        if (column > 60) column = 0;
        column += printf(column ? " %s" : "\n             %s", words[i]);
    }
}

static const char purpose[] =
    "NAME\n"
    "  weft-bench - measure how fast Weft is between the ranks of a job\n"
    "\n"
    "SYNOPSIS\n"
    "  weft-run -n N weft-bench [OPTIONS]        or under any other launcher\n"
    "\n"
    "DESCRIPTION\n"
    "  Measures operations of different sizes and types, and checks what arrives.  Rank 0 prints a table.\n"
    "\n"
    "  Size      as nccl-tests counts it: bytes of the larger of a rank's two buffers, one element a rank "
    "at\n"
    "            least.\n"
    "  Time      A sample is one operation, or the mean of as many as last 10 us one after the other, behind "
    "a\n"
    "            barrier.  Of each sample the slowest rank counts.  Median, least and 99th percentile are "
    "over\n"
    "            samples.  (nccl-tests gives the mean over operations and ranks.)\n"
    "  algbw     algorithm bandwidth: size by time, in 10^9 bytes per second.\n"
    "  busbw     bus bandwidth: algbw times 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter, "
    "all_gather,\n"
    "            gather, scatter and all_to_all, 1 for the others.\n"
    "  wrong     elements that were not as they must be, on all ranks.  Inputs change from sample to "
    "sample.\n"
    "            In place the first operation of a point is checked, and each sample of one operation.\n"
    "\n"
    "OPTIONS\n"
    "  What is measured; a LIST is separated by commas:\n"
    "  --op LIST            operations (all that the library has)\n"
    "  --sizes LIST         sizes, like 8,4K,16M\n"
    "  -b, --begin SIZE     first size (8; with --overlap 1M)\n"
    "  -e, --end SIZE       last size (16M; with --rate 8)\n"
    "  -f, --factor N       from one size to the next (8)\n"
    "  --dtype LIST         types of the elements, or all (float32)\n"
    "  --reduction NAME     of the operations that reduce (sum)\n"
    "  --memory LIST        private: ordinary memory, or cudaMalloc's; shared: weft_mem_alloc (private)\n"
    "  --call LIST          request: submit, wait, release; blocking: no request (request)\n"
    "  --in-place           in and out are one buffer, where the operation has that form\n"
    "  --rate               the rate of messages instead: windows of 64 isends to the other rank of a pair\n"
    "  --overlap            how much of an operation is hidden behind computation instead\n"
    "  --device             the same operations on CUDA devices, one for each rank\n"
    "  --compare nccl       and the same as plain NCCL calls beside them\n"
    "  --tune               which algorithm is the faster from how many bytes on, instead: on this "
    "processor, over\n"
    "                       this job's transport, with as many ranks (sizes: 64 to 4M, times 2)\n"
    "  --kernels            the reductions alone instead, in this process, without a job (all types, sum;\n"
    "                       sizes: 16K, 1M, 64M; --reduction all: every one)\n"
    "\n"
    "  How long:\n"
    "  --time S             seconds for each point, about, with filling and checking (0.1)\n"
    "  --iterations N       operations for each point, instead of --time\n"
    "  --warmup N           operations before, at least (5); 0: only the first, which is checked\n"
    "  --check, --no-check  look at the results, or do not (--check)\n"
    "  --timeout S          deadline of each operation (60)\n"
    "\n"
    "  What becomes of it; a file is written when all has gone well, - is stdout instead of the table:\n"
    "  --csv FILE           comma-separated values, one line for each point\n"
    "  --json FILE          the same with the machine and the settings\n"
    "  --svg FILE           a picture: time and bandwidth against size\n"
    "  -h, --help           this text\n"
    "  --version            the version, and nothing else\n";

static const char meaning[] =
    "\n"
    "OVERLAP\n"
    "  t_comm     submit and wait\n"
    "  t_compute  arithmetic on the calling thread, as much as lasts about t_comm\n"
    "  t_total    submit, the same arithmetic, wait\n"
    "  OSU %      max(0, 100 (1 - (t_total - t_compute) / t_comm))\n"
    "  true %     100 (2 - t_total / t_comm)\n"
    "  stretch    the arithmetic during communication, by t_compute\n"
    "  CPU        cores that the process used beside its arithmetic, mean over ranks\n"
    "\n"
    "TUNE\n"
    "  Every operation that more than one algorithm shares is measured by each of them.  What is found is "
    "kept in\n"
    "  $XDG_CACHE_HOME/weft, else ~/.cache/weft, on the host of rank 0.  Jobs of this user whose lowest rank "
    "finds\n"
    "  it there go by it; weft-info --algorithms shows it; without the file the library's defaults count "
    "again.\n"
    "\n"
    "KERNELS\n"
    "  size       of all sources and the result together: as large as a cache, or larger than any\n"
    "  level      what of the processor the kernel uses; the library takes the last one that is listed\n"
    "  stores     usual, or streamed: past the caches\n"
    "  moved      bytes that are read and written, by the least time\n"
    "  copy, read the same of memcpy from one half of this memory to the other, and of a loop that reads all "
    "of\n"
    "             it, measured by turns with the kernels\n"
    "  share      moved by the greater of copy and read; above 100 where what is streamed is not loaded "
    "first\n"
    "\n"
    "DEVICE\n"
    "  submit     the call returns\n"
    "  issued     the device has the operation: weft_stream_wait returns; from before the call\n"
    "  settled    weft_wait returns; from before the call\n"
    "  time       of one among as many as last 2 ms (64 at most), all submitted before the first is waited "
    "for\n"
    "  NCCL       the same as plain NCCL calls on a stream, before or after Weft by turns, 20 times at "
    "least\n"
    "  ratio      Weft's bandwidth by NCCL's: median over these pairs\n"
    "  On devices that are emulated (weft-run --emulate-gpu N) the figures say nothing about GPUs.\n"
    "\n"
    "EXIT STATUS\n"
    "  0 all was measured and right; 1 something failed or was wrong; 2 the command line makes no sense.\n"
    "\n"
    "EXAMPLES\n"
    "  weft-run -n 2 --bind weft-bench --op all_reduce,p2p\n"
    "  weft-run -n 4 weft-bench --overlap --sizes 4M --svg overlap.svg --json overlap.json\n"
    "  weft-bench --kernels --dtype float32,bfloat16 --sizes 16K,64M\n"
    "  weft-run -n 8 weft-bench --device --compare nccl --op all_reduce -e 1G\n"
    "\n"
    "NAMES\n";

void bench_options_help(void)
{
    fputs(purpose, stdout);
    fputs(meaning, stdout);
    printf("  Operations");
    for (int i = 0; i < bench_cases_n; i++)
        printf(bench_cases[i].text ? "\n             %-17s %s" : "\n             %s", bench_cases[i].name,
               bench_cases[i].text);
    printf("\n  Types");
    list(word_dtypes, WORD_DTYPES);
    printf("\n  Reductions");
    list(word_reductions, WORD_REDUCTIONS);
    putchar('\n');
}
